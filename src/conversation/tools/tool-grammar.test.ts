import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { accepts, byteAutomaton, generator, randomText } from '../../../test/support/byte-automaton.ts'
import { combinedArguments, randomArguments, toolsFor } from '../../../test/support/random-tools.ts'
import { CALL_WRITERS, callReader, pythonJson } from '../../../test/support/written-calls.ts'
import type { ToolSyntaxName } from '../../families/tool-syntax.ts'
import { ReplyCollector } from '../reply/reply.ts'
import type { ReplyPiece } from '../reply/reply-piece.ts'
import { schemaValidator } from '../reply/structure/schema-validator.ts'
import type { Tool } from '../request/tool.ts'
import type { ToolSyntax } from './syntax.ts'
import { TOOL_SYNTAXES } from './syntaxes.ts'

/** The message that a text is read as. It does not depend on how the text is cut. */
function read(syntax: ToolSyntax, tools: readonly Tool[], text: string, draw: () => number) {
  const reader = callReader(syntax, tools)
  const collector = new ReplyCollector()
  const take = (pieces: readonly ReplyPiece[]) => {
    for (const piece of pieces) collector.add(piece)
  }
  for (let at = 0; at < text.length; ) {
    const end = at + 1 + Math.floor(draw() * 9)
    take(reader.push(text.slice(at, end)))
    at = end
  }
  take(reader.end(false))
  return collector.message
}

/** Random texts that ended within their limit, and so were read: too few are drawn of a single syntax to expect one of each. */
let finished = 0

describe.each(Object.entries(TOOL_SYNTAXES))('%s', (name, syntax) => {
  const automatonFor = (tools: readonly Tool[]) =>
    byteAutomaton({ ...syntax.constraint(tools, true, true), atLeastOne: true })

  test('every valid call is accepted and read as intended', () => {
    fc.assert(
      fc.property(
        randomArguments,
        fc.constantFrom('weather', 'ns.look-up'),
        fc.nat(),
        ({ schema, value }, called, seed) => {
          const tools = toolsFor(schema)
          const written = CALL_WRITERS[name as ToolSyntaxName](called, value as object, pythonJson)
          expect([written, accepts(automatonFor(tools), written)]).toEqual([written, true])
          const { toolCalls, text } = read(syntax, tools, written, generator(seed))
          expect({ text, calls: toolCalls.map((call) => [call.name, JSON.parse(call.arguments)]) }).toEqual({
            text: '',
            calls: [[called, value]],
          })
        },
      ),
      { numRuns: 9 },
    )
  })

  test.each<[string, fc.Arbitrary<object>]>([
    ['', randomArguments.map(({ schema }) => schema)],
    [', where several schemas describe a value', combinedArguments],
  ])('every accepted text is read as a valid call%s', (_, schemas) => {
    fc.assert(
      fc.property(schemas, fc.nat(), (schema, seed) => {
        const tools = toolsFor(schema)
        const draw = generator(seed)
        const written = randomText(automatonFor(tools), draw)
        if (written === null) return
        finished++
        const { toolCalls, text } = read(syntax, tools, written, draw)
        expect([written, text, toolCalls.length]).toEqual([written, '', 1])
        expect(written).toContain(toolCalls[0]!.name)
        const valid = schemaValidator(schema)
        expect([written, valid(JSON.parse(toolCalls[0]!.arguments)), valid.errors]).toEqual([written, true, null])
      }),
      { numRuns: 6 },
    )
  })

  test('the number of members is as the schema requires', () => {
    const schema = { type: 'object', properties: { a: {}, b: {}, c: {} }, minProperties: 1, maxProperties: 2 }
    const tools = toolsFor(schema)
    const automaton = automatonFor(tools)
    for (let seed = 0; seed < 8; seed++) {
      const written = randomText(automaton, generator(seed))
      if (written === null) continue
      const [call] = read(syntax, tools, written, generator(seed)).toolCalls
      const count = Object.keys(JSON.parse(call!.arguments)).length
      expect([written, count >= 1 && count <= 2]).toEqual([written, true])
    }
  })

  test('a tool without a schema takes any well-formed arguments', () => {
    const tools: Tool[] = [{ name: 'f', description: null, parameters: '{}' }]
    const automaton = automatonFor(tools)
    for (let seed = 0; seed < 8; seed++) {
      const written = randomText(automaton, generator(seed))
      if (written === null) continue
      const [call] = read(syntax, tools, written, generator(seed)).toolCalls
      expect(JSON.parse(call!.arguments)).toBeTypeOf('object')
    }
  })
})

test('many of the random texts ended', () => {
  expect(finished).toBeGreaterThan(2 * Object.keys(TOOL_SYNTAXES).length)
})
