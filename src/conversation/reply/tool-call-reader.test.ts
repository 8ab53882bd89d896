import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { CALL_WRITERS } from '../../../test/support/written-calls.ts'
import type { ToolSyntaxName } from '../../families/tool-syntax.ts'
import type { Tool } from '../request/tool.ts'
import type { ToolSyntax } from '../tools/syntax.ts'
import { TOOL_SYNTAXES } from '../tools/syntaxes.ts'
import type { ReplyPiece } from './reply-piece.ts'
import { ToolCallReader } from './tool-call-reader.ts'

interface Call {
  readonly name: string
  readonly values: Record<string, unknown>
}

const schema = {
  type: 'object',
  properties: {
    city: { type: 'string' },
    days: { type: 'integer' },
    list: { type: 'array' },
    deep: { type: 'object' },
    on: { type: 'boolean' },
    either: { type: ['string', 'null'] },
  },
  required: ['city'],
}
const tools: Tool[] = ['weather', 'ns.look-up', 'toString'].map((name) => ({
  name,
  description: null,
  parameters: JSON.stringify(schema),
}))

/** Texts with the characters of every syntax, except for markers that end a value in syntaxes without escapes. */
const text = fc
  .array(
    fc.oneof(
      fc.string({ unit: 'grapheme', maxLength: 5 }),
      fc.constantFrom('{', '}', '"', '\\', '[', ']', '\n', '<', '</', 'null', '1'),
    ),
  )
  .map((parts) => parts.join(''))
  .filter((value) => !/<\|"\|>|<\/(?:parameter|arg_value|param|｜DSML｜parameter)>/.test(value))
/** Trims values in syntaxes where white space in a value cannot be distinguished from white space around it. */
const trimmed = text.map((value) => value.trim())
const json = fc.jsonValue({ maxDepth: 3 }).map((value) => JSON.parse(JSON.stringify(value)))
const plainKeys = (value: unknown): boolean =>
  typeof value !== 'object' ||
  value === null ||
  Object.entries(value).every(([key, inner]) => /^[a-z]+$/i.test(key) && plainKeys(inner)) ||
  (Array.isArray(value) && value.every(plainKeys))
const noQuotes = (value: unknown): boolean => !JSON.stringify(value).includes('<|')
const values = fc.record(
  {
    city: trimmed,
    days: fc.integer(),
    list: fc.array(json).filter((value) => plainKeys(value) && noQuotes(value)),
    deep: fc.dictionary(fc.stringMatching(/^[a-z]{1,8}$/), json).filter((value) => plainKeys(value) && noQuotes(value)),
    on: fc.boolean(),
    either: fc.oneof(
      trimmed.filter((value) => value !== 'null'),
      fc.constant(null),
    ),
  },
  { requiredKeys: ['city'], noNullPrototype: true },
)
const call = fc.record({ name: fc.constantFrom(...tools.map(({ name }) => name)), values })
/** Prose in which no call can start. */
const prose = fc.string({ unit: 'grapheme', maxLength: 20 }).filter((value) => !/[<[{]/.test(value))

interface Read {
  text: string
  calls: { id: string; name: string; arguments: string }[]
}

function read(syntax: ToolSyntax, pieces: readonly string[], { single = false, cut = false } = {}): Read {
  let ids = 0
  const reader = new ToolCallReader({ syntax, tools, single, newId: () => `call_${ids++}` })
  const result: Read = { text: '', calls: [] }
  const take = (pieces: ReplyPiece[]) => {
    for (const piece of pieces) {
      if (piece.type === 'text') result.text += piece.text
      else if (piece.type === 'tool_call') {
        expect(piece.index).toBe(result.calls.length)
        result.calls.push({ id: piece.id, name: piece.name, arguments: '' })
      } else if (piece.type === 'tool_arguments') result.calls[piece.index]!.arguments += piece.text
    }
  }
  for (const piece of pieces) take(reader.push(piece))
  take(reader.end(cut))
  return result
}

function cut(text: string, lengths: readonly number[]): string[] {
  const pieces: string[] = []
  for (let at = 0, i = 0; at < text.length; i++) {
    const length = lengths[i % lengths.length] ?? 1
    pieces.push(text.slice(at, at + length))
    at += length
  }
  return pieces
}
const write = (syntax: ToolSyntaxName, { name, values }: Call) => CALL_WRITERS[syntax](name, values, JSON.stringify)

const lengths = fc.array(fc.integer({ min: 1, max: 12 }), { minLength: 1, maxLength: 8 })

/** Marks around calls are not text. */
function withoutAround({ around = [] }: ToolSyntax, text: string): string {
  return around.reduce((rest, mark) => rest.replaceAll(mark, ''), text)
}

describe.each(Object.entries(TOOL_SYNTAXES).filter(([, { answer }]) => !answer))('%s', (syntaxName, syntax) => {
  const write = (call: Call) => CALL_WRITERS[syntaxName as ToolSyntaxName](call.name, call.values, JSON.stringify)

  test('reads back the calls, however the text is chunked', () => {
    fc.assert(
      fc.property(
        prose,
        fc.array(call, { minLength: 1, maxLength: 3 }),
        prose,
        lengths,
        (before, calls, after, lengths) => {
          const written = `${before}\n${calls.map(write).join('\n')}\n${after}`
          const whole = read(syntax, [written])
          expect(whole.calls.map((found) => ({ name: found.name, values: JSON.parse(found.arguments) }))).toEqual(calls)
          expect(whole.text.replaceAll(/\s/g, '')).toBe((before + after).replaceAll(/\s/g, ''))
          expect(read(syntax, cut(written, lengths))).toEqual(whole)
          expect(read(syntax, [...written])).toEqual(whole)
        },
      ),
      { numRuns: 40 },
    )
  })

  test('a call that breaks off after many blanks is read at once', () => {
    const written = write({ name: 'weather', values: { city: 'Bern' } })
    const begun = written.slice(0, written.indexOf('weather') + 'weather'.length)
    // Other programs cost no time of this one's.
    const before = process.cpuUsage()
    read(syntax, [`${begun}${' '.repeat(50_000)}?{`])
    expect(process.cpuUsage(before).user).toBeLessThan(2_000_000)
  })

  test('any text gives the same result however it is chunked, and without a call no text is lost', () => {
    const scraps = [
      syntax.begin,
      ...syntax.marks,
      'weather',
      '{"name": "weather"',
      '"arguments": ',
      '{',
      '}',
      '[',
      ']',
      '<function=weather>',
      '</function>',
      '<parameter=city>',
      '</parameter>',
      'call:weather',
      '"',
      '\\',
      ' ',
      '\n',
      ':',
      ',',
      'x',
      '[ARGS]',
    ]
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...scraps), { maxLength: 20 }), lengths, (parts, lengths) => {
        const written = parts.join('')
        const whole = read(syntax, [written])
        expect(read(syntax, cut(written, lengths))).toEqual(whole)
        expect(read(syntax, [...written])).toEqual(whole)
        if (whole.calls.length === 0) expect(whole.text).toBe(withoutAround(syntax, written))
      }),
      { numRuns: 100 },
    )
  })

  test('a call of an undeclared function stays text', () => {
    const written = write({ name: 'rm', values: { city: 'x' } })
    const { text, calls } = read(syntax, [written])
    expect([text.trimEnd(), calls]).toEqual([withoutAround(syntax, written).trimEnd(), []])
    expect(read(syntax, [written, write({ name: 'weather', values: { city: 'x' } })]).calls).toHaveLength(1)
  })

  test('a truncated call has its name and the start of its arguments, or is not reported as a call', () => {
    const written = `Well: ${write({ name: 'weather', values: { city: 'Bern', days: 3 } })}`
    const whole = read(syntax, [written]).calls[0]!
    const marked = Math.min(
      ...[syntax.begin, ...(syntax.around ?? [])].map((mark) => (written.split(mark)[0] + mark).length),
    )
    for (let length = 6; length < written.length; length++) {
      const { text, calls } = read(syntax, [written.slice(0, length)], { cut: true })
      expect(calls.length).toBeLessThanOrEqual(1)
      for (const call of calls) expect(whole.arguments.startsWith(call.arguments)).toBe(true)
      if (length >= marked) expect([length, text.trimEnd()]).toEqual([length, 'Well:'])
    }
  })

  test('keeps only the first call when only one is allowed', () => {
    const two = [write({ name: 'weather', values: { city: 'a' } }), write({ name: 'toString', values: { city: 'b' } })]
    const { calls, text } = read(syntax, two, { single: true })
    expect(calls.map((call) => call.name)).toEqual(['weather'])
    expect(text).toBe('')
  })
})

describe('variants that models write', () => {
  test.each([
    ['keys in another order', 'hermes', '<tool_call>{"arguments": {"city": "x"}, "name": "weather"}</tool_call>'],
    [
      'arguments as a string',
      'hermes',
      '<tool_call>{"name":"weather","arguments":"{\\"city\\": \\"x\\"}"}</tool_call>',
    ],
    ['a list of calls', 'hermes', '<tool_call>[{"name":"weather","arguments":{"city":"x"}}]</tool_call>'],
    ['the list of older models', 'mistral', '[TOOL_CALLS] [{"name": "weather", "arguments": {"city": "x"}}]'],
    ['an id of a call', 'mistral', '[TOOL_CALLS]weather[CALL_ID]123456789[ARGS]{"city": "x"}'],
    ['other quotes', 'gemma4', '<|tool_call>call:weather{city:"x"}<tool_call|>'],
    ['quoted keys and blanks', 'gemma4', '<|tool_call> call:weather { <|"|>city<|"|> : <|"|>x<|"|> } <tool_call|>'],
  ] as const)('%s', (_, name, written) => {
    const { calls } = read(TOOL_SYNTAXES[name], [written])
    expect(calls.map((call) => [call.name, JSON.parse(call.arguments)])).toEqual([['weather', { city: 'x' }]])
  })

  test('types determine how a text is read where the syntax does not', () => {
    const written = write('qwen3_coder', {
      name: 'weather',
      values: { city: '12', days: 12, on: true, either: null, new: '{"a": 1}' },
    })
    expect(JSON.parse(read(TOOL_SYNTAXES.qwen3_coder, [written]).calls[0]!.arguments)).toEqual({
      city: '12',
      days: 12,
      on: true,
      either: null,
      new: { a: 1 },
    })
  })
})
