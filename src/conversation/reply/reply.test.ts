import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { ServedModel } from '../../inference/catalog/registry.ts'
import type { EngineEvent, FinishEvent, Generation, TextEvent } from '../../inference/contract/generation.ts'
import { joinTexts } from '../../inference/contract/join-texts.ts'
import { Deadline } from '../request/deadline.ts'
import { assembleReply } from './assembler.ts'
import { collectReply } from './reply.ts'
import { ReplyReader } from './reply-reader.ts'
import { PLAIN } from './stages.ts'

const thought = { begin: '<think>\n', end: '</think>', closing: '\n</think>\n\n' }
const model = { served: { modalities: ['text'] } } as unknown as ServedModel
const tokens = fc.array(fc.constantFrom('a', 'b', 'ab', '\n', ' ', '😀', '<think>\n', '</think>'), { maxLength: 12 })
const branches = fc.array(
  fc.record({ tokens, trailing: fc.nat(2), thinking: fc.boolean(), reason: fc.constantFrom('stop', 'length') }),
  { minLength: 1, maxLength: 3 },
)
type Branches = typeof branches extends fc.Arbitrary<infer Value> ? Value : never

/** The events of a branch, some of them joined. */
function eventsOf({ tokens, trailing, reason }: Branches[number], branch: number, joins: () => boolean): EngineEvent[] {
  const events: EngineEvent[] = []
  for (const text of tokens) {
    const event: TextEvent = { type: 'text', branch, completion: 0, text, tokens: 1 }
    const last = events.at(-1)
    const joined = last !== undefined && joins() ? joinTexts(last, event) : null
    if (joined === null) events.push(event)
    else events[events.length - 1] = joined
  }
  const completionTokens = tokens.length + trailing
  return [...events, { type: 'finish', branch, completion: 0, reason, completionTokens } as FinishEvent]
}

async function replyTo(asked: Branches, stops: string[], maxTokens: number, flips: readonly boolean[]) {
  let at = 0
  const flip = () => flips[at++ % flips.length]!
  const lists = asked.map((one, branch) => eventsOf(one, branch, flip))
  const events: EngineEvent[] = []
  while (lists.some((list) => list.length > 0)) {
    for (const list of lists)
      if (list.length > 0 && (flip() || list === lists.find(({ length }) => length > 0))) events.push(list.shift()!)
  }
  const settled = new Map<number, number>()
  const generation = {
    prompts: [{ promptTokens: 1, imageTokens: 0, audioTokens: 0, cachedTokens: 0 }],
    events: (async function* () {
      yield* events
    })(),
    computedTokens: () => 0,
    settle: ({ branch }: { branch: number }, count: number) => void settled.set(branch, count),
  } as unknown as Generation
  const deadline = new Deadline(60, new AbortController().signal)
  const readers = asked.map(({ thinking }) => new ReplyReader({ thought, thinking, content: PLAIN }))
  const completion = { readers, maxTokens, nothing: 'b' }
  const reply = await collectReply(assembleReply({ generation, model, deadline, completion, stops }))
  deadline.release()
  const sum = [...settled.values()].reduce((total, count) => total + count, 0)
  return { reply, settled: settled.size === 0 ? null : sum }
}

test('a reply and its count do not depend on how its tokens come', async () => {
  await fc.assert(
    fc.asyncProperty(
      branches,
      fc.subarray(['b', 'a\n', '\na', '😀', 'aab']),
      fc.integer({ min: 1, max: 40 }),
      fc.array(fc.boolean(), { minLength: 1, maxLength: 20 }),
      async (asked, stops, maxTokens, flips) => {
        const one = await replyTo(asked, stops, maxTokens, [false])
        const other = await replyTo(asked, stops, maxTokens, [...flips, true])
        expect(other).toEqual(one)
        const { completionTokens, reasoningTokens } = one.reply.finish.usage
        if (one.settled !== null) expect(one.settled).toBe(completionTokens)
        expect(reasoningTokens).toBeLessThanOrEqual(completionTokens)
        for (const stop of stops) expect(one.reply.text).not.toContain(stop)
      },
    ),
    { numRuns: 500 },
  )
})
