import { expect, test } from 'vitest'
import { Repetition } from '../../repetition.ts'
import { KvCache } from '../cache/kv-cache.ts'
import type { Batch } from '../native/batch.ts'
import type { TokenSampler } from '../sampling/sampler.ts'
import type { PromptChunk } from '../tokens/prompt-tokens.ts'
import type { AdmittedBranch } from './admission.ts'
import { Sequence } from './sequence.ts'

const END = 0
/** Token 7 is the first byte of a character, token 8 its second. All others are a letter. */
const model = {
  isEndOfGeneration: (token: number) => token === END,
  piece: (token: number) => (token === 7 ? Buffer.from([0xc3]) : token === 8 ? Buffer.from([0xa4]) : Buffer.from('x')),
}
const prompt: PromptChunk = { type: 'text', tokens: Int32Array.of(1, 2, 3) }
const batch = { add: () => 0 } as Partial<Batch> as Batch

function createSequence(maxTokens: number, sampler: Partial<TokenSampler> = {}, repetition: Repetition | null = null) {
  const kv = new KvCache(
    {
      cells: 100,
      forkSequence() {},
      removeSequence() {},
      sequenceBytes: () => 0,
      saveSequence: () => new Uint8Array(),
      restoreSequence() {},
    },
    2,
  )
  const branch = { maxTokens, lastToken: 4 } as Partial<AdmittedBranch> as AdmittedBranch
  const sequence = new Sequence(
    { branch, branchIndex: 2, index: 1 },
    { parent: null, prompt: [prompt] },
    { sampler: sampler as TokenSampler, repetition },
  )
  const prefill = () => {
    sequence.open(kv.fork(null))
    sequence.cursor!.addText(batch, kv, sequence.remaining, 1)
  }
  /** Has the next token computed, and appends the one that is sampled from it. */
  const generate = (token: number) => {
    sequence.addRow(batch, kv, 1)
    return sequence.append(token, model)
  }
  return { sequence, kv, prefill, generate }
}

const text = (value: string, tokens: number) => ({ type: 'text', branch: 2, completion: 1, text: value, tokens })
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
  expect([generate(7), generate(8), generate(5)]).toEqual([[], [text('ä', 2)], [text('x', 1)]])
  expect(generate(END)).toEqual([finish('stop', 3)])
  expect(sequence.isFinished).toBe(true)
})

test('ends at its limit, and counts the last tokens that print nothing', () => {
  const { prefill, generate } = createSequence(2)
  prefill()
  expect(generate(5)).toEqual([text('x', 1)])
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
  expect(generate(10)).toEqual([text('xxxx', 4)])
  expect([sequence.isJumping, sequence.remaining, sequence.isFilled]).toEqual([true, 3, false])
  sequence.cursor!.addText(batch, kv, 3, 2)
  expect([sequence.isJumping, sequence.isFilled, kv.usedCells]).toEqual([false, true, 3 + 1 + 3])
  expect(generate(10)).toEqual([text('xx', 2), finish('length', 6)])
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
  expect(generate(23)).toEqual([text('x', 1)])
})

test('a text that repeats itself is ended, but a thought only gives way to the reply', () => {
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
