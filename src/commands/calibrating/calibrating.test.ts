import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { boxConfidence, chanceOf, listComplete } from '../../conversation/detecting/confidence.ts'
import { sumOf } from '../../lib/sum.ts'
import { detectionSchema } from '../../models/detection-schema.ts'
import type { FoundList } from './ask-boxes.ts'
import { crossFitted, fitDetection, rateBoxes, rateLists } from './box-fit.ts'
import { boxQuality, brierScore, calibrationError, precisionAt, type RatedList, rankingQuality } from './box-quality.ts'
import { calibrateBoxes } from './boxes.ts'
import { drawDiagrams } from './diagrams.ts'
import { fitIsotonic } from './isotonic.ts'
import { fitLogistic } from './logistic.ts'

/** Numbers from 0 to 1 by Park and Miller, which Python's programs for the numbers below drew as well. */
function drawing(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 48271) % 2147483647
    return state / 2147483647
  }
}

const sigmoid = (score: number) => 1 / (1 + Math.exp(-score))

describe('logistic regression', () => {
  const draw = drawing(7)
  const rows: number[][] = []
  const isRight: boolean[] = []
  for (let i = 0; i < 60; i++) {
    const [a, b, c] = [draw() * 10 - 5, draw(), 100 + draw() * 50] as const
    rows.push([a, b, c])
    isRight.push(draw() < sigmoid(0.8 * a - 2 * b + 0.02 * (c - 120)))
  }

  test.each([
    [1, -5.585175391397547, [0.8115510948468787, -0.7881292330511025, 0.042642475060879495]],
    [10, -2.565501538908443, [0.34400605105182586, -0.07485228883908486, 0.016713169526907056]],
  ])('has the weights of scikit-learn 1.9, strength %d', (strength, bias, weights) => {
    const fitted = fitLogistic(rows, isRight, { strength, prior: null })
    expect(fitted.bias).toBeCloseTo(bias, 6)
    for (const [i, weight] of weights.entries()) expect(fitted.weights[i]).toBeCloseTo(weight, 7)
  })

  test('stays near a prior, the nearer the stronger it is, also where nothing is wrong', () => {
    const prior = { bias: 0.3, weights: [1, -1, 0] }
    const distance = (strength: number, right = isRight) => {
      const { bias, weights } = fitLogistic(rows, right, { strength, prior })
      return Math.hypot(bias - prior.bias, ...weights.map((weight, i) => weight - prior.weights[i]!))
    }
    expect(distance(1e9)).toBeLessThan(1e-5)
    expect(distance(100)).toBeLessThan(distance(1))
    const all = rows.map(() => true)
    expect(distance(1e9, all)).toBeLessThan(1e-5)
    expect(fitLogistic(rows, all, { strength: 1, prior }).bias).toBeLessThan(20)
  })

  test('a feature that does not vary, or varies with another, leaves it finite', () => {
    const { bias, weights } = fitLogistic(
      rows.map(([a]) => [a!, 3, 2 * a!]),
      isRight,
    )
    expect([bias, ...weights].every(Number.isFinite)).toBe(true)
    expect(weights[1]).toBe(0)
  })
})

describe('isotonic regression', () => {
  test('has the values of scikit-learn 1.9', () => {
    const draw = drawing(11)
    const places = Array.from({ length: 30 }, () => Math.round(draw() * 20) / 20)
    const points = places.map((at) => ({ count: 1, from: at, to: at, value: Number(draw() < at) }))
    const blocks = fitIsotonic(points)
    expect(blocks.map(({ value }) => Number(value.toFixed(6)))).toEqual([0, 0.142857, 0.727273, 1])
    // Blocks of the places 0 to .15, .2 to .45, .5 to .8 and .9 to 1.
    expect(blocks.map(({ count }) => count)).toEqual(
      [-1, 0.17, 0.47, 0.85].map((from, i, all) => places.filter((at) => at > from && at <= (all[i + 1] ?? 1)).length),
    )
  })

  test('rises, keeps the mean, and leaves what rises already', () => {
    const value = fc.double({ min: 0, max: 1, noNaN: true })
    const point = fc.record({ at: value, value }).map(({ at, value }) => ({ count: 1, from: at, to: at, value }))
    fc.assert(
      fc.property(fc.array(point, { minLength: 1, maxLength: 60 }), (points) => {
        const blocks = fitIsotonic(points)
        for (const [i, block] of blocks.slice(1).entries()) {
          expect(block.from).toBeGreaterThan(blocks[i]!.to)
          expect(block.value).toBeGreaterThan(blocks[i]!.value)
        }
        expect(sumOf(blocks, ({ count }) => count)).toBe(points.length)
        const total = sumOf(points, (one) => one.value)
        expect(sumOf(blocks, (block) => block.count * block.value)).toBeCloseTo(total, 9)
        expect(fitIsotonic(blocks)).toEqual(blocks)
      }),
    )
  })
})

describe('how good boxes are', () => {
  test('average precision has the numbers of pycocotools 2.0', () => {
    const draw = drawing(5)
    const box = (left: number, top: number, width: number, height: number) => {
      return { label: 'a', left, top, right: left + width, bottom: top + height }
    }
    const lists: RatedList[] = []
    for (let i = 0; i < 40; i++) {
      const known: RatedList['known'][number][] = []
      const found: RatedList['found'][number][] = []
      const count = Math.floor(draw() * 5)
      for (let k = 0; k < count; k++) {
        const [x, y] = [Math.round(draw() * 80), Math.round(draw() * 80)] as const
        const [w, h] = [Math.round(10 + draw() * 40), Math.round(10 + draw() * 40)] as const
        known.push(box(x, y, w, h))
        if (draw() >= 0.85) continue
        const times = draw() < 0.2 ? 2 : 1
        for (let time = 0; time < times; time++) {
          const [dx, dy, dw, dh] = [1, 2, 3, 4].map(() => Math.round((draw() - 0.5) * 8)) as [
            number,
            number,
            number,
            number,
          ]
          const confidence = Number((0.3 + 0.7 * draw()).toFixed(3))
          found.push({ box: box(x + dx, y + dy, w + dw, h + dh), confidence, right: true })
        }
      }
      if (draw() < 0.3) {
        const [x, y] = [Math.round(draw() * 80), Math.round(draw() * 80)] as const
        found.push({ box: box(x, y, 20, 20), confidence: Number((draw() * 0.8).toFixed(3)), right: false })
      }
      lists.push({ known, found })
    }
    const quality = boxQuality(lists)
    expect(lists.flatMap(({ known }) => known)).toHaveLength(92)
    expect(quality.boxes).toBe(114)
    expect(quality.ap).toBeCloseTo(0.29361038185234334, 9)
    expect(quality.ap50).toBeCloseTo(0.6286193154083304, 9)

    const known = [box(0, 0, 10, 10)]
    const found = (confidence: number) => ({ box: known[0]!, confidence, right: true })
    const wrong = { box: box(50, 50, 10, 10), confidence: 0.5, right: false }
    const sure = Array.from({ length: 7 }, () => ({ known, found: [found(0.9)] }))
    const rest = [[wrong, found(0.4)], [], []].map((found) => ({ known, found }))
    expect(boxQuality([...sure, ...rest]).ap).toBeCloseTo(0.7898789878978106, 9)
  })

  const box = { label: 'a', left: 0, top: 0, right: 10, bottom: 10 }
  const far = { label: 'a', left: 50, top: 50, right: 60, bottom: 60 }
  const lists: RatedList[] = [
    {
      known: [box, far],
      found: [
        { box, confidence: 0.6, right: true },
        { box, confidence: 0.4, right: false },
      ],
    },
    { known: [box], found: [{ box, confidence: 0.8, right: true }] },
    { known: [], found: [{ box, confidence: 0.7, right: false }] },
  ]

  test('calibration, thresholds and the order', () => {
    const { thresholds, ece, brier, right } = boxQuality(lists)
    expect(right).toBe(0.5)
    expect(ece).toBeCloseTo((0.4 + 0.4 + 0.2 + 0.7) / 4, 12)
    expect(brier).toBeCloseTo((0.16 + 0.16 + 0.04 + 0.49) / 4, 12)
    expect(thresholds).toEqual([
      { confidence: 0.3, precision: 0.5, recall: 2 / 3 },
      { confidence: 0.5, precision: 2 / 3, recall: 2 / 3 },
      { confidence: 0.7, precision: 0.5, recall: 1 / 3 },
      { confidence: 0.9, precision: null, recall: 0 },
    ])
    expect(precisionAt(lists, 0.5)).toBeCloseTo(2 / 3, 12)
    expect(precisionAt(lists, 0.7)).toBeNull()
    expect(rankingQuality(lists.flatMap(({ found }) => found))).toBe(3 / 4)
  })

  test('nothing found, and nothing there', () => {
    expect(boxQuality([{ known: [box], found: [] }])).toMatchObject({ ap: 0, right: null, ece: null, brier: null })
    expect(boxQuality([{ known: [], found: [] }])).toMatchObject({ ap: null, ap50: null, boxes: 0 })
    expect([rankingQuality([]), brierScore([]), calibrationError([])]).toEqual([null, null, null])
  })
})

/** Lists of a model whose evidence says as much as it seems to. */
function simulated(files: number, { errors = 0.3, seed = 3, reads = true } = {}): FoundList[] {
  const draw = drawing(seed)
  return Array.from({ length: files * 3 }, (_, index) => {
    const count = 1 + Math.floor(draw() * 3)
    const known: FoundList['known'][number][] = []
    const found: FoundList['found'][number][] = []
    for (let rank = 1; rank <= count + 1; rank++) {
      const isFurther = rank > count
      const right = draw() > (isFurther ? 0.9 : errors)
      const box = { label: 'a', left: rank * 20, top: 0, right: rank * 20 + 10, bottom: 10 }
      if (right) known.push(box)
      const near = sigmoid((right ? 2 : -1) + 3 * (draw() - 0.5))
      found.push({
        box,
        right,
        evidence: {
          begin: isFurther ? 0.1 * draw() : 0.9 + 0.1 * draw(),
          near,
          mean: near * 0.9,
          overlap: right && draw() < 0.7 ? 0 : draw(),
          size: 0.1 + 0.2 * draw(),
          rank,
          listLength: count,
          read: reads ? sigmoid((right ? 1 : -1) + 2 * (draw() - 0.5)) : null,
        },
      })
    }
    return { file: `${Math.floor(index / 3)}.png`, known, found, more: 0.1 * draw() }
  })
}

describe('fitting', () => {
  test('a card takes the fit, and it mends what the model says', () => {
    const lists = simulated(100)
    const fit = fitDetection(lists)
    expect(detectionSchema.parse(JSON.parse(JSON.stringify(fit)))).toEqual(fit)
    for (const depth of ['plain', 'thorough'] as const) {
      const [before, after] = [boxQuality(rateBoxes(lists, depth, null)), boxQuality(crossed(lists, depth))]
      expect(after.ece).toBeLessThan(0.05)
      expect(after.brier!).toBeLessThan(before.brier! / 2)
      // What is right does not depend on how sure the model is.
      expect(after.right).toBe(before.right)
    }
    expect(calibrationError(rateLists(lists, fit))).toBeLessThan(calibrationError(rateLists(lists, null))!)
  })

  const crossed = (lists: readonly FoundList[], depth: 'plain' | 'thorough') =>
    crossFitted(lists, (some, fit) => rateBoxes(some, depth, fit))!

  test('steps keep the order of the curve, strictly', () => {
    const fit = fitDetection(simulated(100))
    expect(fit.confidence.steps.length).toBeGreaterThan(2)
    const score = fc.double({ min: -12, max: 12, noNaN: true })
    const chance = (bias: number) => chanceOf({}, { ...fit.confidence, bias, weights: {} })
    fc.assert(
      fc.property(score, score, (one, other) => {
        const [less, more] = one < other ? [one, other] : [other, one]
        expect(chance(less)).toBeLessThanOrEqual(chance(more))
        if (more - less > 1e-6) expect(chance(less)).toBeLessThan(chance(more))
        expect(chance(less)).toBeGreaterThan(0)
        expect(chance(more)).toBeLessThan(1)
      }),
    )
  })

  test('any evidence has a confidence between 0 and 1, with a fit and without', () => {
    const fit = fitDetection(simulated(100))
    const share = fc.double({ min: 0, max: 1, noNaN: true })
    const place = fc.record({ begin: share, near: share, mean: share, overlap: share, size: share })
    const list = fc.record({ rank: fc.integer({ min: 1, max: 99 }), listLength: fc.integer({ min: 0, max: 99 }) })
    fc.assert(
      fc.property(place, list, fc.option(share), share, (of, at, read, more) => {
        for (const known of [fit, null]) {
          for (const sure of [
            boxConfidence({ ...of, ...at, read }, known),
            listComplete({ more, listLength: at.listLength }, known),
          ]) {
            expect(sure).toBeGreaterThanOrEqual(0)
            expect(sure).toBeLessThanOrEqual(1)
          }
        }
        expect(boxConfidence({ ...of, ...at, read }, null)).toBe(of.begin * of.near)
      }),
    )
  })

  test('without reads there is no fit of them, and a box that was not read gets the plain one', () => {
    const lists = simulated(100, { reads: false })
    const fit = fitDetection(lists)
    expect(fit.thorough).toBeUndefined()
    const both = fitDetection(simulated(100))
    const { evidence } = lists[0]!.found[0]!
    expect(boxConfidence(evidence, both)).toBe(boxConfidence(evidence, { ...both, thorough: undefined }))
    expect(boxConfidence({ ...evidence, read: 0.9 }, both)).not.toBe(boxConfidence(evidence, both))
  })

  test('few errors leave it near the prior, without steps, and say so', () => {
    const { warnings, detection } = calibrateBoxes(simulated(40, { errors: 0.02 }), 'nano')
    expect(warnings).toEqual([expect.stringMatching(/^\d wrong boxes are too few to learn from/)])
    expect(detection.confidence.steps).toEqual([])
  })

  test('says so where the scores say nothing, and where nothing is right', () => {
    const draw = drawing(17)
    const noise = simulated(60).map((list) => ({
      ...list,
      found: list.found.map((one) => ({ ...one, right: draw() < 0.5 })),
    }))
    expect(calibrateBoxes(noise, 'nano').warnings).toEqual([expect.stringMatching(/^these scores say nothing: /)])
    const wrong = noise.map((list) => ({ ...list, found: list.found.map((one) => ({ ...one, right: false })) }))
    expect(() => calibrateBoxes(wrong, 'nano')).toThrow(/^none of the \d+ boxes of 'nano' is right/)
    expect(() => calibrateBoxes([], 'nano')).toThrow("'nano' finds none of the categories")
  })
})

test('a diagram has everything in one of its bins, and no broken number', () => {
  const share = fc.double({ min: 0, max: 1, noNaN: true })
  const rated = fc.array(fc.record({ confidence: share, right: fc.boolean() }))
  fc.assert(
    fc.property(rated, fc.integer({ min: 1, max: 20 }), (rated, bins) => {
      const series = { name: 'a', isAfter: false, rated, figures: { ECE: null }, curve: null }
      const svg = drawDiagrams([series], bins)
      const titles = [...svg.matchAll(/<title>a, before, [\d.]+ to [\d.]+: (\d+) of (\d+) right</g)]
      expect(sumOf(titles, ([, , count]) => Number(count))).toBe(rated.length)
      expect(sumOf(titles, ([, right]) => Number(right))).toBe(rated.filter(({ right }) => right).length)
      expect(svg).not.toMatch(/NaN|Infinity|undefined/)
    }),
  )
})
