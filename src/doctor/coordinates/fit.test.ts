import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { DIALECTS, type DialectName } from '../../grounding/dialects/dialects.ts'
import { seededRandom, shuffled } from '../random.ts'
import { type Box, CONVENTIONS, type Convention, describeConvention, type Frame, numbersOf } from './convention.ts'
import { conventionOf, placePattern, readBy } from './dialect-convention.ts'
import { type Answer, fitConventions, same } from './fit.ts'
import type { NumberGroup } from './number-groups.ts'

const FRAMES: readonly Frame[] = [
  { original: { width: 720, height: 440 }, resized: { width: 544, height: 320 }, patches: { width: 17, height: 10 } },
  { original: { width: 460, height: 700 }, resized: { width: 352, height: 544 }, patches: { width: 11, height: 17 } },
  { original: { width: 560, height: 560 }, resized: { width: 448, height: 448 }, patches: { width: 14, height: 14 } },
]

/** Targets as the examination draws them: centres in the middle three fifths, assigned at random. */
function targets(count: number, random: () => number): { frame: Frame; target: Box }[] {
  const centres = Array.from({ length: count }, () => ({ x: 0.2 + 0.6 * random(), y: 0.2 + 0.6 * random() }))
  return shuffled(centres, random).map(({ x, y }, i) => {
    const frame = FRAMES[i % 3]!
    const side = 0.15 + 0.12 * random()
    const short = Math.min(frame.original.width, frame.original.height)
    const half = { x: (side * short) / frame.original.width / 2, y: (side * short) / frame.original.height / 2 }
    return { frame, target: { from: { x: x - half.x, y: y - half.y }, to: { x: x + half.x, y: y + half.y } } }
  })
}

/** Answers of a model that sees: its corners are off by up to `noise` patches. */
function answers(
  convention: Convention,
  { count = 12, noise = 0.2, kind = 'box' as 'box' | 'point', seed = 1 } = {},
): Answer[] {
  const random = seededRandom(seed)
  return targets(count, random).map(({ frame, target }) => {
    const off = (value: number, patches: number) => value + ((random() * 2 - 1) * noise) / patches
    const seen = {
      from: { x: off(target.from.x, frame.patches.width), y: off(target.from.y, frame.patches.height) },
      to: { x: off(target.to.x, frame.patches.width), y: off(target.to.y, frame.patches.height) },
    }
    const decimals = convention.space === '0..1' ? 3 : 0
    const numbers = numbersOf(seen, kind, convention, frame).map((value) => Number(value.toFixed(decimals)))
    return { frame, target, numbers: numbers as unknown as NumberGroup }
  })
}

const CORNERS = { order: 'x first', form: 'corners' } as const
const has = (list: readonly Convention[], wanted: Convention) => list.some((one) => same(one, wanted))

describe('a model that sees', () => {
  test.each(CONVENTIONS.map((convention) => [describeConvention(convention), convention] as const))(
    'is recognised by its boxes: %s',
    (_, convention) => {
      const fit = fitConventions(answers(convention))
      expect(fit.verdict).toBe('fits')
      expect(has(fit.within, convention)).toBe(true)
      // Nothing but a grid that differs by a thousandth is within noise.
      expect(fit.within.filter((one) => !same(one, convention)).map(({ space }) => space)).toEqual(
        convention.space === '0..1000' ? ['0..999'] : convention.space === '0..999' ? ['0..1000'] : [],
      )
      expect(fit.errorOf(convention)).toBeLessThan(0.3)
      expect(fit.chance).toBeLessThanOrEqual(0.01)
    },
  )

  test('is recognised for any images, noise and number of answers', () => {
    const shape = { count: fc.integer({ min: 8, max: 24 }), noise: fc.double({ min: 0, max: 0.5, noNaN: true }) }
    fc.assert(
      fc.property(fc.constantFrom(...CONVENTIONS), fc.nat(), fc.record(shape), (convention, seed, form) => {
        const fit = fitConventions(answers(convention, { ...form, seed }))
        expect(['fits', 'ambiguous']).toContain(fit.verdict)
        expect(fit.error).toBeLessThan(1)
        expect(fit.best.order).toBe(convention.order)
      }),
      { numRuns: 60 },
    )
  })

  test('is recognised by its points, which have no form', () => {
    for (const space of ['0..1000', 'resized pixels', '0..100', '0..1'] as const) {
      const convention = { ...CORNERS, space }
      const fit = fitConventions(answers(convention, { kind: 'point' }))
      expect(fit.verdict).toBe('fits')
      expect(fit.best).toEqual(space === '0..1000' ? expect.objectContaining(CORNERS) : convention)
    }
  })

  test('one wrong object in twelve does not hide the convention', () => {
    const convention = { ...CORNERS, space: 'resized pixels' } as const
    const list = answers(convention)
    list[3] = { ...list[3]!, numbers: list[4]!.numbers }
    expect(fitConventions(list)).toMatchObject({ best: convention })
  })

  test('conventions that cannot be told apart are called ambiguous', () => {
    // So inaccurate that 1000 and 1024 are all one.
    const fit = fitConventions(answers({ ...CORNERS, space: '0..1000' }, { noise: 2, seed: 3 }))
    expect(fit.verdict).toBe('ambiguous')
    expect(has(fit.within, { ...CORNERS, space: '0..1000' })).toBe(true)
    expect(has(fit.within, { ...CORNERS, space: '1024 bins' })).toBe(true)
    expect(has(fit.within, { ...CORNERS, space: '0..100' })).toBe(false)
  })

  test('of conventions that are the same here, the preferred one is the best', () => {
    // Images that were not resized.
    const same = answers({ ...CORNERS, space: 'resized pixels' }).map(({ numbers, frame, target }) => ({
      numbers,
      target,
      frame: { ...frame, original: frame.resized },
    }))
    const preferred = { ...CORNERS, space: 'original pixels' } as const
    expect(fitConventions(same, preferred)).toMatchObject({ verdict: 'fits', best: preferred })
    expect(fitConventions(same)).toMatchObject({ verdict: 'fits', best: { space: 'resized pixels' } })
  })
})

describe('a model that does not see', () => {
  /** How many of the runs are taken for more than noise. */
  const taken = (runs: number, write: (random: () => number, frame: Frame) => NumberGroup) => {
    let count = 0
    for (let seed = 0; seed < runs; seed++) {
      const random = seededRandom(seed)
      const list = targets(12, random).map((one) => ({ ...one, numbers: write(random, one.frame) }))
      if (fitConventions(list).verdict !== 'noise') count++
    }
    return count
  }
  const integer = (random: () => number, below: number) => Math.floor(random() * below)

  // Each run is taken for more than noise with a likelihood of 0.01: more than 5 of 100 have one of 1 in 2000.
  test('writes random boxes: noise', () => {
    const box = (random: () => number): NumberGroup => {
      const side = () => integer(random, 1000)
      return [side(), side(), side(), side()]
    }
    expect(taken(100, box)).toBeLessThanOrEqual(5)
  })

  test('writes plausible boxes in the middle, of the right shape: noise', () => {
    const box = (random: () => number, { resized }: Frame): NumberGroup => {
      const [x, y] = [resized.width * (0.3 + 0.2 * random()), resized.height * (0.3 + 0.2 * random())]
      return [x, y, x + 80, y + 80]
    }
    expect(taken(100, box)).toBeLessThanOrEqual(5)
  })

  test('writes the same point every time: noise', () => {
    expect(taken(5, () => [500, 500])).toBe(0)
  })

  test('writes few places: too few to say anything', () => {
    expect(fitConventions(answers({ ...CORNERS, space: '0..1000' }, { count: 5 })).verdict).toBe('too few')
    expect(fitConventions([]).verdict).toBe('too few')
  })
})

describe('dialects', () => {
  test.each([
    ['markup', { space: '0..1000', order: 'x first', form: 'corners' }],
    ['qwen3-vl', { space: '0..1000', order: 'x first', form: 'corners' }],
    ['qwen2.5-vl', { space: 'resized pixels', order: 'x first', form: 'corners' }],
    ['gemma', { space: '0..1000', order: 'y first', form: 'corners' }],
    ['molmo', { space: '0..100', order: 'x first', form: 'corners' }],
    ['paligemma', { space: '1024 bins', order: 'y first', form: 'corners' }],
    ['lfm2.5-vl', { space: '0..1', order: 'x first', form: 'corners' }],
    ['molmo2', { space: '0..1000', order: 'x first', form: 'corners' }],
    ['dots-ocr', { space: 'resized pixels', order: 'x first', form: 'corners' }],
    ['lighton-ocr', { space: '0..1000', order: 'x first', form: 'corners' }],
  ] as const)('%s writes %o', (name, convention) => {
    expect(conventionOf(name)).toEqual(convention)
  })

  test('every dialect has a convention and reads its own places', () => {
    const frame = FRAMES[0]!
    for (const name of Object.keys(DIALECTS) as DialectName[]) {
      expect(conventionOf(name), name).not.toBeNull()
      expect(() => new RegExp(placePattern(name, 'red square', frame))).not.toThrow()
      expect(readBy(name, 'Nothing is here.', frame)).toBeNull()
    }
    // A place in parts of a side needs as many digits as the dialect writes.
    expect('[{"label": "a", "bbox": [0.125, 0.25, 0.5, 0.75]}]').toMatch(
      new RegExp(`^${placePattern('lfm2.5-vl', 'a', frame)}$`),
    )
    expect(readBy('gemma', '{"box_2d": [200, 100, 400, 300], "label": "a"}', frame)).toEqual({
      from: { x: 0.1, y: 0.2 },
      to: { x: 0.3, y: 0.4 },
    })
  })
})
