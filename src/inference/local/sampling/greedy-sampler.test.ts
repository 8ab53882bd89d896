import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { CARD, GREEDY } from '../../../../test/support/local-engine.ts'
import { loadLocalCard } from '../../../models/card.ts'
import { likeliestToken } from '../../constraints/token-mask.ts'
import { Context } from '../native/context.ts'
import { loadNativeLibraries, type NativeLibraries } from '../native/libraries.ts'
import { Model } from '../native/model.ts'
import { locateNativeLibraries } from '../native/native-paths.ts'
import { ChainSampler } from './chain-sampler.ts'
import { GreedySampler } from './greedy-sampler.ts'

let native: NativeLibraries
let model: Model
let context: Context

beforeAll(async () => {
  const card = await loadLocalCard(CARD)
  native = loadNativeLibraries(locateNativeLibraries())
  model = new Model(native.llama, `${card.directory}/${card.engine.model}`, [])
  context = open(native)
})

afterAll(() => {
  context?.close()
  model?.close()
})

function open(libraries: Pick<NativeLibraries, 'llama' | 'kernels'>): Context {
  return new Context(libraries, model, { cells: 256, sequences: 4, threads: 1, batchRows: 64 })
}

/** Some tokens get the same logit, so that many are the likeliest. */
const cases = fc.record({
  token: fc.nat(400),
  alike: fc.array(fc.nat(400), { maxLength: 20 }),
  logit: fc.constantFrom(-100, 0, 100),
  allowed: fc.option(fc.array(fc.nat(400), { minLength: 1, maxLength: 50 }), { nil: undefined }),
})

test('chooses the token that the greedy sampler of llama.cpp chooses, and leaves the logits as they are', () => {
  const chain = new ChainSampler(native.llama, GREEDY, 0, model.vocabularySize, 16)
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

/** Logits of which many are alike, and the tokens among which to choose; the numbers are not all multiples of 32. */
const rows = fc
  .array(fc.tuple(fc.constantFrom(-2, -0, 0, 1, 1.5, Number.NaN, -Infinity, Infinity), fc.boolean()), {
    minLength: 1,
    maxLength: 200,
  })
  .map((tokens) => {
    const mask = new Int32Array(Math.ceil(tokens.length / 32))
    for (const [token, [, isAllowed]] of tokens.entries()) if (isAllowed) mask[token >> 5]! |= 1 << (token & 31)
    return { logits: Float32Array.from(tokens, ([logit]) => logit), mask }
  })

test('the compiled choice is that of JavaScript', ({ skip }) => {
  const { kernels } = native
  skip(kernels === null, 'no kernels are compiled for this machine')
  fc.assert(
    fc.property(rows, ({ logits, mask }) => {
      for (const allowed of [undefined, mask]) {
        const token = kernels!.likeliest(logits, logits.length, allowed ?? null)
        const isAllowed = (token: number) => allowed === undefined || ((allowed[token >> 5]! >> (token & 31)) & 1) === 1
        const hasAny = logits.some((logit, token) => logit > -Infinity && isAllowed(token))
        expect(token).toBe(hasAny ? likeliestToken(logits, allowed) : -1)
      }
    }),
  )
})

test('where no kernels are compiled, the choice is the same', () => {
  const plain = open({ llama: native.llama, kernels: null })
  try {
    for (const token of [1, 50, 300]) {
      const chosen = [context, plain].map((own) => {
        own.clear()
        const row = own.batch.add(token, 0, 0, true)
        own.decodeBatch()
        return new GreedySampler().sample(own, row)
      })
      expect(chosen[1]).toBe(chosen[0])
    }
  } finally {
    plain.close()
  }
})
