import { expect, test } from 'vitest'
import { Repetition } from '../../../contract/repetition.ts'
import { KvCache } from '../../cache/kv-cache.ts'
import type { Batch } from '../../native/batch.ts'
import { LIKELIEST } from '../../native/choice.ts'
import type { Context } from '../../native/context.ts'
import type { TokenSampler } from '../../sampling/sampler.ts'
import type { PromptChunk } from '../../tokens/prompt-tokens.ts'
import type { AdmittedBranch } from '../admission.ts'
import { Sequence } from './sequence.ts'

const END = 0
/** Token 7 is the first byte of a character, token 8 its second. All others are a letter. */
const model = {
  isEndOfGeneration: (token: number) => token === END,
  piece: (token: number) => (token === 7 ? Buffer.from([0xc3]) : token === 8 ? Buffer.from([0xa4]) : Buffer.from('x')),
}
const prompt: PromptChunk = { type: 'text', tokens: Int32Array.of(1, 2, 3) }
const batch = { add: () => 0 } as Partial<Batch> as Batch

function createSequence(
  maxTokens: number,
  sampler: Partial<TokenSampler> = {},
  repetition: Repetition | null = null,
  chunks: readonly PromptChunk[] = [prompt],
) {
  const kv = new KvCache(
    {
      cells: 100,
      forkSequence() {},
      removeSequence() {},
      sequenceBytes: () => 0,
      saveSequence: () => new Uint8Array(),
      firstPosition: () => 0,
      restoreSequence() {},
    },
    2,
  )
  /** The tokens that the sampler returns. */
  const sampled: number[] = []
  const branch = { maxTokens, lastToken: 4 } as Partial<AdmittedBranch> as AdmittedBranch
  const sequence = new Sequence(
    { branch, branchIndex: 2, index: 1 },
    { parent: null, prompt: chunks },
    { sampler: { sample: () => sampled.shift(), ...sampler } as TokenSampler, repetition },
  )
  const prefill = () => {
    sequence.open(kv.fork(null))
    sequence.cursor!.addText(batch, kv, sequence.remaining, 1)
  }
  /** Decodes the next token and a draft, and samples from their rows. */
  const verify = (draft: readonly number[], tokens: readonly number[]) => {
    sampled.splice(0, sampled.length, ...tokens)
    return sequence.generate({} as Context, sequence.addRows(batch, kv, 1, draft), kv, model)
  }
  const generate = (token: number) => verify([], [token]).events
  return { sequence, kv, prefill, generate, verify, sampled }
}

/** @param ends where the text of each of several tokens ends. */
const text = (value: string, ...ends: readonly number[]) => ({
  type: 'text',
  branch: 2,
  completion: 1,
  text: value,
  tokens: Math.max(1, ends.length),
  ...(ends.length === 0 ? {} : { ends }),
})
const finish = (reason: string, completionTokens: number) => ({
  type: 'finish',
  branch: 2,
  completion: 1,
  reason,
  completionTokens,
})

test('emits whole characters, with the number of tokens that wrote them', () => {
  const { prefill, generate, sequence } = createSequence(10)
  prefill()
  expect([generate(7), generate(8), generate(5)]).toEqual([[], [text('ä', 0, 1)], [text('x')]])
  expect(generate(END)).toEqual([finish('stop', 3)])
  expect(sequence.isFinished).toBe(true)
})

test('ends at its limit, and counts the last tokens that print nothing', () => {
  const { prefill, generate } = createSequence(2)
  prefill()
  expect(generate(5)).toEqual([text('x')])
  expect(generate(7)).toEqual([finish('length', 2)])
})

test('forced tokens are computed in one batch, all but the last, and no more of them than there is room for', () => {
  const asked: number[] = []
  const forced = (most: number) => {
    asked.push(most)
    return [11, 12, 13].slice(0, most)
  }
  const { prefill, generate, sequence, kv } = createSequence(6, { forced })
  prefill()
  expect(generate(10)).toEqual([text('xxxx', 1, 2, 3, 4)])
  expect([sequence.isJumping, sequence.remaining, sequence.isFilled]).toEqual([true, 3, false])
  sequence.cursor!.addText(batch, kv, 3, 2)
  expect([sequence.isJumping, sequence.isFilled, kv.usedCells]).toEqual([false, true, 3 + 1 + 3])
  expect(generate(10)).toEqual([text('xx', 1, 2), finish('length', 6)])
  expect(asked).toEqual([5, 1])
})

test('what was generated is prefilled again after a preemption, but for the last token', () => {
  const { prefill, generate, sequence, kv } = createSequence(10)
  prefill()
  for (const token of [20, 21, 22]) generate(token)
  expect(kv.usedCells).toBe(6)
  sequence.close(kv)
  expect([kv.usedCells, sequence.remaining, sequence.cursor]).toEqual([0, 6, null])
  expect(sequence.chunks).toEqual([prompt, { type: 'text', tokens: Int32Array.of(4, 20, 21) }])
  prefill()
  expect([kv.usedCells, sequence.isFilled, sequence.tokens]).toEqual([6, true, [20, 21, 22]])
  expect(generate(23)).toEqual([text('x')])
})

test('a repeating text is ended, but after a repeating thought the reply follows', () => {
  const limits = { blockTokens: 4, repeats: 3, tokens: 3 }
  let isThinking = true
  const endThought = () => {
    const goesOn = isThinking
    isThinking = false
    return goesOn
  }
  const { prefill, generate } = createSequence(20, { endThought }, new Repetition(limits))
  prefill()
  const ends = [5, 5, 5, 5, 5, 5].map((token) => generate(token).some(({ type }) => type === 'finish'))
  expect(ends).toEqual([false, false, false, false, false, true])
})

test('only accepted draft tokens stay in the KV cache, and the sampler sees no others', () => {
  const rows: number[] = []
  const { prefill, verify, sequence, kv, sampled } = createSequence(20, {
    sample: (_, row) => {
      rows.push(row)
      return sampled.shift()!
    },
  })
  prefill()
  expect(verify([11, 12, 13], [11, 12, 20, 99])).toMatchObject({ tokens: 3, agreed: 2, error: null })
  expect([rows, sequence.tokens, kv.usedCells]).toEqual([[0, 1, 2], [11, 12, 20], 3 + 1 + 2])
  expect(verify([21], [21, 22, 99])).toMatchObject({ tokens: 2, agreed: 1 })
  expect(verify([23, 24], [30, 99])).toMatchObject({ tokens: 1, agreed: 0 })
  expect(verify([31, 32, 33], [31, END, 99])).toMatchObject({ tokens: 1, agreed: 1 })
  expect([sequence.isFinished, sequence.tokens, sampled]).toEqual([true, [11, 12, 20, 21, 22, 30, 31], [99]])
  expect([kv.usedCells, sequence.isFilled]).toEqual([3 + 1 + 7, true])
})

test('forced tokens that were drafted are not computed again', () => {
  const forced = [[12, 13], [], [22, 23, 24]]
  const { prefill, verify, sequence, kv, sampled } = createSequence(20, { forced: () => forced.shift() ?? [] })
  prefill()
  expect(verify([11, 12, 13, 14], [11, 14, 21, 99])).toMatchObject({ tokens: 8, agreed: 4 })
  expect([sequence.tokens, sampled]).toEqual([[11, 12, 13, 14, 21, 22, 23, 24], [99]])
  expect([sequence.isJumping, sequence.remaining, kv.usedCells]).toEqual([true, 3, 3 + 1 + 4])
})

test('a draft before the first token has chances, too', () => {
  const tokens = Int32Array.of(1, 2, 3, 4, 5, 1, 2, 3)
  const { prefill, sequence } = createSequence(9, {}, null, [{ type: 'text', tokens }])
  prefill()
  const { tokens: drafted, chances } = sequence.propose(2)
  expect(drafted).toEqual([5, 1])
  for (const chance of chances) expect(chance).toBeGreaterThan(0)
})

test('drafts never exceed the limit of a reply, nor cross an image', () => {
  const { prefill, generate, sequence } = createSequence(9)
  prefill()
  expect(sequence.propose(8).tokens).toEqual([])
  for (const token of [1, 2, 3]) generate(token)
  expect(sequence.propose(8).tokens).toEqual([4, 1, 2, 3, 4])
  expect(sequence.propose(2).tokens).toEqual([4, 1])
})

test('predicts the sampling requests for the rows of a draft, and a failing constraint fails no others', () => {
  const place = (ahead: readonly number[] = []) => ({ ...LIKELIEST, drawSeed: ahead.length })
  const drafting = createSequence(10, { ask: (ahead) => (ahead?.includes(6) ? null : place(ahead)) })
  drafting.prefill()
  drafting.sequence.addRows(batch, drafting.kv, 1, [5, 5, 6])
  expect(drafting.sequence.asks(20)).toEqual(
    [0, 1, 2].map((at) => ({ row: 20 + at, ask: { ...LIKELIEST, drawSeed: at } })),
  )
  const failing = createSequence(10, {
    ask: () => {
      throw new Error('It cannot be followed.')
    },
  })
  failing.prefill()
  failing.sequence.addRows(batch, failing.kv, 1)
  expect(failing.sequence.asks(20)).toEqual([])
})
