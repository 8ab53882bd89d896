import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ChannelReader } from './channel-reader.ts'
import { ReplyCollector, type ReplyMessage } from './reply.ts'
import { ReplyReader } from './reply-reader.ts'
import { FilteredStage, MarkerRemover, PLAIN } from './stages.ts'

const thought = { begin: '<think>\n', end: '</think>', closing: '\n</think>\n\n' }
function read(pieces: readonly string[], { thinking = true, verbatim = false } = {}): ReplyMessage {
  const content = verbatim ? null : new FilteredStage(PLAIN, () => new MarkerRemover(thought))
  const reader = new ReplyReader({ thought, thinking, content })
  const collector = new ReplyCollector()
  for (const text of pieces) for (const piece of reader.push(text)) collector.add(piece)
  for (const piece of reader.end(false)) collector.add(piece)
  return collector.message
}

const said = (reasoning: string, text: string) => ({ reasoning, text, toolCalls: [] })
const pieces = fc.array(
  fc.constantFrom('<think>', '</think>', '<thi', 'nk>', '</', 'think>', '<', '>', '\n', ' ', 'a', 'b', 'é'),
  { maxLength: 25 },
)

test('splits reasoning from the reply and drops the separator', () => {
  expect(read(['Hm, ', 'two.\n</th', 'ink>\n', '\nTwo lamps.\n'])).toEqual(said('Hm, two.', 'Two lamps.\n'))
  expect(read(['</think>\n\n{"a": 1}'])).toEqual(said('', '{"a": 1}'))
})

test('recognises reasoning that was not requested', () => {
  expect(read(['<think>\nHm.\n</think>\n\nTwo.'], { thinking: false })).toEqual(said('Hm.', 'Two.'))
  expect(read(['<think>\n\n</think>\n\nTwo.'], { thinking: false })).toEqual(said('', 'Two.'))
  expect(read([' <b>', 'ok'], { thinking: false })).toEqual(said('', ' <b>ok'))
})

test('drops a repeated start marker', () => {
  expect(read(['<think>\nHm.</think>Two.'])).toEqual(said('Hm.', 'Two.'))
})

test('keeps a structured reply verbatim', () => {
  expect(read(['Hm.</think>\n\n\n <think>'], { verbatim: true })).toEqual(said('Hm.', '\n <think>'))
  expect(read(['<think> </think>'], { verbatim: true, thinking: false })).toEqual(said('', '<think> </think>'))
})

test('truncated reasoning does not end with part of a marker', () => {
  expect(read(['Hm.\n</thi'])).toEqual(said('Hm.', ''))
})

describe('any text of a model', () => {
  test.each([
    { thinking: true, verbatim: false },
    { thinking: false, verbatim: false },
    { thinking: true, verbatim: true },
  ])('the result does not depend on how the text is chunked: %o', (options) => {
    fc.assert(
      fc.property(pieces, (pieces) => {
        const whole = read([pieces.join('')], options)
        expect(read(pieces, options)).toEqual(whole)
        expect(read([...pieces.join('')], options)).toEqual(whole)
      }),
      { numRuns: 2000 },
    )
  })

  test('no marker is left in the reply', () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom('<think>', '</think>', '\n', 'a', ' '), { maxLength: 20 }),
        fc.boolean(),
        (pieces, thinking) => {
          const { text } = read(pieces, { thinking })
          expect(text).not.toMatch(/<\/?think>/)
        },
      ),
    )
  })
})

describe('messages in channels', () => {
  const tools = [{ name: 'weather', description: null, parameters: null }]
  const messages = (pieces: readonly string[]): ReplyMessage => {
    const state = { inAnswer: false, hasThought: false, showsThoughts: true }
    const reader = new ChannelReader({ ...state, tools, single: false, newId: () => 'id' })
    const collector = new ReplyCollector()
    for (const text of pieces) for (const piece of reader.push(text)) collector.add(piece)
    for (const piece of reader.end(false)) collector.add(piece)
    return collector.message
  }

  test('a mark behind text is no header, whether they come together or not', () => {
    expect(messages(['Two.<|channel|>analysis<|message|>Hm.'])).toEqual(
      messages(['Two.', '<|channel|>analysis<|message|>Hm.']),
    )
    expect(messages([' <|channel|>analysis<|message|>Hm.'])).toEqual(said('Hm.', ''))
  })

  test('the result does not depend on how the text is chunked', () => {
    const parts = [
      ...[
        '<|start|>',
        '<|channel|>',
        '<|message|>',
        '<|end|>',
        '<|call|>',
        '<|constrain|>',
        'assistant',
        'analysis',
        ' ',
      ],
      ...[
        'to=',
        'to=functions.weather',
        'commentary',
        'final',
        '{}',
        'a',
        '<|',
        '|>',
        '\n',
        'x'.repeat(980),
        'y'.repeat(9),
      ],
    ]
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...parts), { maxLength: 15 }), (pieces) => {
        const whole = messages([pieces.join('')])
        expect(messages(pieces)).toEqual(whole)
        expect(messages([...pieces.join('')])).toEqual(whole)
      }),
      { numRuns: 2000 },
    )
  })
})
