import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { accepts, byteAutomaton, generator, randomText } from '../../../test/support/byte-automaton.ts'
import { MessageCollector } from '../reply/reply.ts'
import { schemaValidator } from '../reply/schema-validator.ts'
import { ToolCallReader } from '../reply/tool-call-reader.ts'
import type { Tool } from '../request/tool.ts'
import type { ToolSyntax } from './syntax.ts'
import { TOOL_SYNTAXES } from './syntaxes.ts'

/** A schema with a value that it allows. */
interface Sample {
  readonly schema: object
  readonly value: unknown
}

const PIECES = ['{', '}', '"', '\\', '[', ']', '\n', '<', '</', '<|', '</tool_call', 'null', '5', ' ', ':', ',', '>']
const MARKS = ['<|"|>', '</parameter>', '</function>', '<tool_call|>']
const text = fc
  .array(fc.oneof(fc.string({ unit: 'grapheme', maxLength: 5 }), fc.constantFrom(...PIECES)), { maxLength: 6 })
  .map((parts) => parts.join(''))
  // JSON leaves control characters without a short escape out.
  .filter((value) => !JSON.stringify(value).includes('\\u00') && !MARKS.some((mark) => value.includes(mark)))
const names = fc.constantFrom('a', 'size', 'é"', 'long name', 'x:y', 'toString', '"')

const { object: objects } = fc.letrec<{ any: Sample; object: Sample }>((tie) => ({
  any: fc.oneof(
    { maxDepth: 3 },
    text.map((value) => ({ schema: { type: 'string' }, value })),
    text.map((value) => ({ schema: { enum: [value, 'other', '5', 'null'] }, value })),
    fc.stringMatching(/^[a-c]{1,9}$/).map((value) => ({ schema: { type: 'string', pattern: '^[a-c]+$' }, value })),
    fc
      .integer({ min: -40, max: 900 })
      .map((value) => ({ schema: { type: 'integer', minimum: -40, maximum: 900 }, value })),
    fc.integer({ min: -90_000, max: 90_000 }).map((n) => ({ schema: { type: 'number' }, value: n / 100 || 0 })),
    fc.boolean().map((value) => ({ schema: { type: ['boolean', 'null'] }, value })),
    fc.constantFrom('metric', null).map((value) => ({ schema: { enum: ['metric', 'imperial', null] }, value })),
    fc
      .oneof(text, fc.constant(null))
      .filter((value) => value !== 'null')
      .map((value) => ({
        schema: { anyOf: [{ type: 'string' }, { type: 'null' }] },
        value,
      })),
    tie('any').chain(({ schema, value }) =>
      fc.nat(3).map((count) => ({ schema: { type: 'array', items: schema }, value: Array(count).fill(value) })),
    ),
    tie('object'),
  ),
  object: fc
    .tuple(fc.uniqueArray(names, { maxLength: 4 }), fc.infiniteStream(fc.tuple(tie('any'), fc.boolean(), fc.boolean())))
    .map(([keys, drawn]) => {
      const members = keys.map((key) => {
        const [sample, required, given] = drawn.next().value!
        return { key, ...sample, required, given: required || given }
      })
      return {
        schema: {
          type: 'object',
          properties: Object.fromEntries(members.map(({ key, schema }) => [key, schema])),
          required: members.filter(({ required }) => required).map(({ key }) => key),
          additionalProperties: false,
        },
        value: Object.fromEntries(members.filter(({ given }) => given).map(({ key, value }) => [key, value])),
      }
    }),
}))

function toolsFor(schema: object): Tool[] {
  const parameters = JSON.stringify(schema)
  return ['weather', 'ns.look-up'].map((name) => ({ name, description: null, parameters }))
}

/** JSON as Python writes it. */
function json(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(json).join(', ')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  return `{${Object.entries(value)
    .map(([key, inner]) => `${JSON.stringify(key)}: ${json(inner)}`)
    .join(', ')}}`
}

function gemmaValue(value: unknown): string {
  if (typeof value === 'string') return `<|"|>${value}<|"|>`
  if (Array.isArray(value)) return `[${value.map(gemmaValue).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const key = (name: string) => (/[\s:]/.test(name) ? `<|"|>${name}<|"|>` : name)
  return `{${Object.entries(value)
    .map(([name, inner]) => `${key(name)}:${gemmaValue(inner)}`)
    .join(',')}}`
}

/** How each family writes a call. */
const WRITERS: Record<keyof typeof TOOL_SYNTAXES, (name: string, values: object) => string> = {
  hermes: (name, values) => `<tool_call>\n{"name": "${name}", "arguments": ${json(values)}}\n</tool_call>`,
  llama3: (name, values) => `{"name": "${name}", "parameters": ${json(values)}}`,
  mistral: (name, values) => `[TOOL_CALLS]${name}[ARGS]${json(values)}`,
  qwen3_coder: (name, values) => {
    const members = Object.entries(values).map(
      ([key, value]) => `<parameter=${key}>\n${typeof value === 'string' ? value : json(value)}\n</parameter>\n`,
    )
    return `<tool_call>\n<function=${name}>\n${members.join('')}</function>\n</tool_call>`
  },
  gemma4: (name, values) => `<|tool_call>call:${name}${gemmaValue(values)}<tool_call|>`,
}

/** The message that a text is read as, however it is cut. */
function read(syntax: ToolSyntax, tools: readonly Tool[], text: string, draw: () => number) {
  const reader = new ToolCallReader({ syntax, tools, single: true, newId: () => 'id' })
  const collector = new MessageCollector()
  const take = (pieces: ReturnType<ToolCallReader['push']>) => {
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

describe.each(Object.entries(TOOL_SYNTAXES))('%s', (name, syntax) => {
  const automatonFor = (tools: readonly Tool[]) =>
    byteAutomaton({ ...syntax.constraint(tools, true), atLeastOne: true })

  test('every valid call is let through, and read as it was meant', () => {
    fc.assert(
      fc.property(objects, fc.constantFrom('weather', 'ns.look-up'), fc.nat(), ({ schema, value }, called, seed) => {
        const tools = toolsFor(schema)
        const written = WRITERS[name as keyof typeof WRITERS](called, value as object)
        expect([written, accepts(automatonFor(tools), written)]).toEqual([written, true])
        const { toolCalls, text } = read(syntax, tools, written, generator(seed))
        expect({ text, calls: toolCalls.map((call) => [call.name, JSON.parse(call.arguments)]) }).toEqual({
          text: '',
          calls: [[called, value]],
        })
      }),
      { numRuns: 60 },
    )
  })

  test('whatever is let through is read as a valid call', () => {
    let finished = 0
    fc.assert(
      fc.property(objects, fc.nat(), ({ schema }, seed) => {
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
      { numRuns: 30 },
    )
    expect(finished).toBeGreaterThan(25)
  })

  test('a tool of which nothing is described takes any arguments that are well formed', () => {
    const tools: Tool[] = [{ name: 'f', description: null, parameters: '{}' }]
    const automaton = automatonFor(tools)
    for (let seed = 0; seed < 20; seed++) {
      const written = randomText(automaton, generator(seed))
      if (written === null) continue
      const [call] = read(syntax, tools, written, generator(seed)).toolCalls
      expect(JSON.parse(call!.arguments)).toBeTypeOf('object')
    }
  })
})
