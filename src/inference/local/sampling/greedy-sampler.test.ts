import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { CARD, GREEDY } from '../../../../test/support/local-engine.ts'
import { loadLocalCard } from '../../../models/card.ts'
import { Context } from '../native/context.ts'
import { loadNativeLibraries } from '../native/libraries.ts'
import type { Llama } from '../native/llama.ts'
import { Model } from '../native/model.ts'
import { locateNativeLibraries } from '../native/native-paths.ts'
import { ChainSampler } from './chain-sampler.ts'
import { GreedySampler } from './greedy-sampler.ts'

let llama: Llama
let model: Model
let context: Context

beforeAll(async () => {
  const card = await loadLocalCard(CARD)
  llama = loadNativeLibraries(locateNativeLibraries()).llama
  model = new Model(llama, `${card.directory}/${card.engine.model}`, [])
  context = new Context(llama, model, { cells: 256, sequences: 4, threads: 1, batchRows: 64 })
})

afterAll(() => {
  context?.close()
  model?.close()
})

/** Some tokens get the same logit, so that many are the likeliest. */
const cases = fc.record({
  token: fc.nat(400),
  alike: fc.array(fc.nat(400), { maxLength: 20 }),
  logit: fc.constantFrom(-100, 0, 100),
  allowed: fc.option(fc.array(fc.nat(400), { minLength: 1, maxLength: 50 }), { nil: undefined }),
})

test('chooses the token that the greedy sampler of llama.cpp chooses, and leaves the logits as they are', () => {
  const chain = new ChainSampler(llama, GREEDY, 0, model.vocabularySize, 16)
  const greedy = new GreedySampler()
  try {
    fc.assert(
      fc.property(cases, ({ token, alike, logit, allowed }) => {
        context.clear()
        const row = context.batch.add(token, 0, 0, true)
        context.decodeBatch()
        const logits = context.logits(row)
        for (const other of alike) logits[other] = logit
        const before = Float32Array.from(logits)
        const mask = allowed === undefined ? undefined : new Int32Array(Math.ceil(model.vocabularySize / 32))
        for (const other of allowed ?? []) mask![other >> 5]! |= 1 << (other & 31)
        expect(greedy.sample(context, row, mask)).toBe(chain.sample(context, row, mask))
        expect(context.logits(row)).toEqual(before)
      }),
      { numRuns: 50 },
    )
  } finally {
    chain.close()
  }
})
