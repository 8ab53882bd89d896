import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import koffi from 'koffi'
import { describe, expect, test } from 'vitest'
import { compileAlone, hasAvx2 } from '../../../../test/support/kernels-alone.ts'
import { declareIn } from './declare.ts'
import { bindOperations } from './kernels.ts'
import { loadNativeLibraries } from './libraries.ts'
import { type LogitsOperations, PLAIN_OPERATIONS } from './logits-operations.ts'
import { locateNativeLibraries } from './native-paths.ts'

const { kernels } = loadNativeLibraries(locateNativeLibraries())
const compiled = kernels?.operations ?? null
const avx2 = hasAvx2() ? await compileForAvx2() : null
const VERSIONS: readonly (readonly [string, LogitsOperations | null])[] = [
  ['in JavaScript', PLAIN_OPERATIONS],
  ["compiled for this machine's processor", compiled],
  ['compiled for AVX2', avx2],
]

const { NaN: NONE, NEGATIVE_INFINITY, POSITIVE_INFINITY } = Number

interface Row {
  readonly logits: Float32Array
  /** Undefined for all tokens. */
  readonly mask: Int32Array | undefined
  /** Tokens that may be chosen. */
  readonly allowed: readonly number[]
}

/** A row, whose length need not be a multiple of 32, and the allowed tokens. */
function rowsOf(logit: fc.Arbitrary<number>): fc.Arbitrary<Row> {
  const tokens = fc.array(fc.tuple(logit, fc.boolean()), { minLength: 1, maxLength: 200 })
  return fc.tuple(tokens, fc.boolean()).map(([tokens, isMasked]) => {
    const allowed = [...tokens.keys()].filter((token) => !isMasked || tokens[token]![1])
    const mask = new Int32Array(Math.ceil(tokens.length / 32))
    for (const token of allowed) mask[token >> 5]! |= 1 << (token & 31)
    return { logits: Float32Array.from(tokens, ([logit]) => logit), mask: isMasked ? mask : undefined, allowed }
  })
}

/** Logits with many equal values and some NaN. */
const oddRows = rowsOf(fc.constantFrom(-2, -0, 0, 1, 1.5, NONE, NEGATIVE_INFINITY, POSITIVE_INFINITY))
const numbers = fc.oneof(
  fc.float({ min: -20, max: 20, noNaN: true }),
  fc.float({ min: -1000, max: 1000, noNaN: true }),
  fc.constant(NEGATIVE_INFINITY),
)
const plainRows = rowsOf(numbers).filter(({ logits, allowed }) =>
  allowed.some((token) => logits[token]! > NEGATIVE_INFINITY),
)
const rows = fc.oneof(oddRows, plainRows)

describe.each(VERSIONS)('%s', (_, operations) => {
  const { argmax, topK, logSumExp, topPCutoff, sample } = operations ?? PLAIN_OPERATIONS

  test.skipIf(operations === null)('the likeliest token is the lowest of those with the largest logit', () => {
    fc.assert(
      fc.property(rows, ({ logits, mask, allowed }) => {
        const value = (token: number) => (Number.isNaN(logits[token]!) ? NEGATIVE_INFINITY : logits[token]!)
        const best = allowed.reduce((best, token) => (value(token) > value(best) ? token : best), allowed[0] ?? 0)
        expect(argmax(logits, mask)).toBe(best)
      }),
    )
  })

  test.skipIf(operations === null)('the tokens with the largest logits come in order', () => {
    fc.assert(
      fc.property(rows, fc.nat(220), ({ logits, mask, allowed }, most) => {
        const expected = allowed
          .filter((token) => logits[token]! > NEGATIVE_INFINITY)
          .toSorted((a, b) => (logits[a] === logits[b] ? a - b : logits[b]! - logits[a]!))
        expect([...topK(logits, most, mask)]).toEqual(expected.slice(0, most))
      }),
    )
  })

  test.skipIf(operations === null)('the sum of exponentials is that of the definition', () => {
    fc.assert(
      fc.property(plainRows, ({ logits, mask, allowed }) => {
        const values = allowed.map((token) => logits[token]!)
        const most = Math.max(...values)
        const exact = most + Math.log(values.reduce((sum, logit) => sum + Math.exp(logit - most), 0))
        expect(Math.abs(logSumExp(logits, mask) - exact)).toBeLessThan(1e-12 * Math.max(1, Math.abs(exact)))
      }),
    )
    expect(logSumExp(Float32Array.of(3.5, NEGATIVE_INFINITY))).toBe(3.5)
    expect(logSumExp(Float32Array.of(3.5, NONE))).toBeNaN()
    expect(logSumExp(Float32Array.of(3.5, NONE), Int32Array.of(1))).toBe(3.5)
  })

  test.skipIf(operations === null)('a nucleus has the likeliest tokens that add up to its probability', () => {
    fc.assert(
      fc.property(plainRows, fc.double({ min: 0, max: 0.999, noNaN: true }), ({ logits, mask, allowed }, share) => {
        const sorted = allowed.map((token) => logits[token]!).toSorted((a, b) => b - a)
        const masses = sorted.map((logit) => Math.exp(logit - sorted[0]!))
        const total = masses.reduce((sum, mass) => sum + mass)
        const least = topPCutoff(logits, share, mask)
        expect(sorted).toContain(least)
        // Complete, and incomplete without its smallest logits, up to rounding.
        const massOf = (isIn: (logit: number) => boolean) =>
          sorted.reduce((sum, logit, at) => sum + (isIn(logit) ? masses[at]! : 0), 0) / total
        expect(massOf((logit) => logit >= least)).toBeGreaterThanOrEqual(share - 1e-9)
        if (least < sorted[0]!) expect(massOf((logit) => logit > least)).toBeLessThan(share + 1e-9)
      }),
    )
    expect(topPCutoff(Float32Array.of(NONE, NEGATIVE_INFINITY), 0.5)).toBeNaN()
  })

  test.skipIf(operations === null)('every drawn token is allowed', () => {
    const draws = fc.record({
      temperature: fc.constantFrom(0.001, 0.5, 1, 2, 100),
      minLogit: fc.constantFrom(NEGATIVE_INFINITY, -1, 0.5),
      drawSeed: fc.integer({ min: 0, max: 2 ** 32 - 1 }),
    })
    fc.assert(
      fc.property(rows, draws, ({ logits, mask, allowed }, one) => {
        const possible = allowed.filter((token) => logits[token]! >= one.minLogit && logits[token]! > NEGATIVE_INFINITY)
        const token = sample(logits, one, mask)
        if (possible.length === 0) expect(token).toBeNull()
        else expect(possible).toContain(token)
      }),
    )
  })
})

test.skipIf(compiled === null)('all versions draw the same tokens', () => {
  const logits = Float32Array.from({ length: 5000 }, (_, token) => 6 * Math.sin(token * 12.9898) + Math.sin(token))
  const mask = Int32Array.from({ length: Math.ceil(5000 / 32) }, (_, word) => Math.imul(word + 1, 0x9e3779b1))
  const drawn = new Set<number>()
  for (let place = 0; place < 500; place++) {
    for (const temperature of [0.3, 1, 4]) {
      for (const allowed of [undefined, mask]) {
        const one = {
          temperature,
          minLogit: place % 2 === 0 ? NEGATIVE_INFINITY : 2,
          drawSeed: Math.imul(place, 7919) >>> 0,
        }
        const token = PLAIN_OPERATIONS.sample(logits, one, allowed)!
        for (const operations of [compiled, avx2]) {
          if (operations !== null) expect(operations.sample(logits, one, allowed)).toBe(token)
        }
        drawn.add(token)
      }
    }
  }
  expect(drawn.size).toBeGreaterThan(500)
})

test.skipIf(kernels === null).each([1, 2, 3, 8])('%i threads that share a row find the same', (threads) => {
  const size = 70_001
  const logits = Float32Array.from({ length: size }, (_, token) => Math.fround(8 * Math.sin(token * 12.9898)))
  const mask = Int32Array.from({ length: Math.ceil(size / 32) }, (_, word) => Math.imul(word + 1, 0x9e3779b1))
  mask[mask.length - 1]! &= 1
  kernels!.shareRows(threads)
  try {
    for (const allowed of [undefined, mask]) {
      // The same largest logit several times, so that the lowest token counts.
      for (const token of [69_000, 50_000, 20_003]) logits[token] = 9
      const { argmax, logSumExp, topPCutoff, sample } = compiled!
      expect(argmax(logits, allowed)).toBe(PLAIN_OPERATIONS.argmax(logits, allowed))
      expect(logSumExp(logits, allowed)).toBeCloseTo(PLAIN_OPERATIONS.logSumExp(logits, allowed), 11)
      expect(topPCutoff(logits, 0.4, allowed)).toBe(PLAIN_OPERATIONS.topPCutoff(logits, 0.4, allowed))
      for (let place = 0; place < 200; place++) {
        const one = { temperature: 0.7, minLogit: NEGATIVE_INFINITY, drawSeed: Math.imul(place, 7919) >>> 0 }
        expect(sample(logits, one, allowed)).toBe(PLAIN_OPERATIONS.sample(logits, one, allowed))
      }
    }
  } finally {
    kernels!.shareRows(1)
  }
})

/** @returns null where there is no compiler. */
async function compileForAvx2(): Promise<LogitsOperations | null> {
  const [source, ...kernels] = ['logits.cpp', 'logit-rows.h', 'softmax.h', 'gumbel-noise.h'].map((name) =>
    fileURLToPath(new URL(`kernels/${name}`, import.meta.url)),
  )
  const alone = { name: 'choice', source: source!, kernels, flags: ['-march=x86-64-v3', '-O3'] }
  const library = await compileAlone(alone).catch(() => null)
  return library === null ? null : bindOperations(declareIn(koffi.load(library)))
}
