import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { matchBoxes, scoresOf } from '../src/exports/box-matching.ts'
import { toCoco } from '../src/exports/coco.ts'
import type { DetectedBox } from '../src/exports/detected-picture.ts'
import { iouOf } from '../src/lib/rectangle.ts'
import { readCoco } from '../studio/src/detect/compare/coco-file.ts'
import { LABEL_HEIGHT, placeLabels } from '../studio/src/stage/label-layout.ts'
import { HANDLES, reshape } from '../studio/src/stage/reshape.ts'

/** The arithmetic of the Studio's Detect; studio/detect.test.ts uses it in a browser. */

const box = fc
  .record({
    label: fc.constantFrom('cat', 'Cat', 'dog'),
    left: fc.integer({ min: 0, max: 40 }),
    top: fc.integer({ min: 0, max: 40 }),
    width: fc.integer({ min: 1, max: 30 }),
    height: fc.integer({ min: 1, max: 30 }),
  })
  .map(({ label, left, top, width, height }) => ({ label, left, top, right: left + width, bottom: top + height }))
const boxes = fc.array(box, { maxLength: 12 })
const least = fc.integer({ min: 0, max: 20 }).map((twentieths) => twentieths / 20)
const nameOf = ({ label }: DetectedBox) => label.toLowerCase()

describe('matching', () => {
  test('IoU of boxes that share a third', () => {
    const one = { label: '', left: 0, top: 0, right: 20, bottom: 10 }
    expect(iouOf(one, { ...one, left: 10, right: 30 })).toBeCloseTo(1 / 3)
    expect(iouOf(one, { ...one, left: 20, right: 40 })).toBe(0)
  })

  test('each box is in one pair at most, of the same label, that overlaps enough; none that could be is left', () => {
    fc.assert(
      fc.property(boxes, boxes, least, (known, found, from) => {
        const { pairs, missed, extra } = matchBoxes(known, found, from)
        const all = (list: readonly unknown[]) => list.map((_, index) => index)
        expect([...pairs.map((pair) => pair.known), ...missed].sort((a, b) => a - b)).toEqual(all(known))
        expect([...pairs.map((pair) => pair.found), ...extra].sort((a, b) => a - b)).toEqual(all(found))
        for (const pair of pairs) {
          expect(nameOf(known[pair.known]!)).toBe(nameOf(found[pair.found]!))
          expect(pair.iou).toBe(iouOf(known[pair.known]!, found[pair.found]!))
          expect(pair.iou).toBeGreaterThanOrEqual(from)
        }
        for (const a of missed) {
          for (const b of extra) {
            if (nameOf(known[a]!) !== nameOf(found[b]!)) continue
            const iou = iouOf(known[a]!, found[b]!)
            expect(iou === 0 || iou < from).toBe(true)
          }
        }
      }),
    )
  })

  test('a higher threshold keeps the best pairs and makes no new ones', () => {
    fc.assert(
      fc.property(boxes, boxes, least, least, (known, found, one, other) => {
        const loose = matchBoxes(known, found, Math.min(one, other)).pairs
        const strict = matchBoxes(known, found, Math.max(one, other)).pairs
        expect(strict).toEqual(loose.slice(0, strict.length))
      }),
    )
  })

  test('boxes agree wholly with themselves', () => {
    fc.assert(
      fc.property(boxes, (known) => {
        const { total } = scoresOf([{ known, found: known, matching: matchBoxes(known, known, 1) }])
        const agreed = known.length === 0 ? null : 1
        expect(total).toMatchObject({ matched: known.length, precision: agreed, recall: agreed, meanIou: agreed })
      }),
    )
  })

  test('scores count over all pictures, for each label and in all', () => {
    const at = (label: string, left: number) => ({ label, left, top: 0, right: left + 10, bottom: 10 })
    const compare = (known: DetectedBox[], found: DetectedBox[]) => ({
      known,
      found,
      matching: matchBoxes(known, found, 0.5),
    })
    const { labels, total } = scoresOf([
      compare([at('cat', 0), at('cat', 50)], [at('cat', 0), at('dog', 50)]),
      compare([at('cat', 0)], [at('cat', 2)]),
    ])
    expect(labels).toEqual([
      { label: 'cat', known: 3, found: 2, matched: 2, precision: 1, recall: 2 / 3, meanIou: (1 + 80 / 120) / 2 },
      { label: 'dog', known: 0, found: 1, matched: 0, precision: 0, recall: null, meanIou: null },
    ])
    expect(total).toMatchObject({ known: 3, found: 3, matched: 2, precision: 2 / 3, recall: 2 / 3 })
  })
})

const ORIGIN = { asked: [], model: null, version: null, date: new Date(0) }

describe('COCO files', () => {
  test('what is exported is read as it was', () => {
    fc.assert(
      fc.property(fc.array(boxes, { maxLength: 4 }), (lists) => {
        const pictures = lists.map((list, index) => ({ name: `${index}.png`, width: 80, height: 80, boxes: list }))
        const read = readCoco(JSON.stringify(toCoco(pictures, ORIGIN)))
        expect([...read.values()]).toEqual(
          pictures.map(({ name, width, height, boxes }) => ({ name, size: { width, height }, boxes })),
        )
      }),
    )
  })

  test('crowds are left out, and folders of names', () => {
    const bbox = [1, 2, 3, 4]
    const file = {
      images: [{ id: 7, file_name: 'val/a.jpg' }],
      categories: [{ id: 3, name: 'cat' }],
      annotations: [
        { image_id: 7, category_id: 3, bbox, iscrowd: 0 },
        { image_id: 7, category_id: 3, bbox, iscrowd: 1 },
        { image_id: 7, category_id: 3, bbox, iscrowd: true },
      ],
    }
    expect(readCoco(JSON.stringify(file)).get('a.jpg')).toEqual({
      name: 'a.jpg',
      size: null,
      boxes: [{ label: 'cat', left: 1, top: 2, right: 4, bottom: 6 }],
    })
  })

  test.each([
    ['{', /not valid JSON/],
    ['[]', /needs the lists/],
    ['null', /needs the lists/],
    [{ images: [], annotations: [], categories: [{ id: 1 }] }, /categories\[0\] has no name/],
    [{ images: [{ id: 1 }], annotations: [], categories: [] }, /images\[0\] has no file_name/],
    [{ images: [], annotations: [{ image_id: 1 }], categories: [] }, /annotations\[0\] names an image/],
    [{ images: [], annotations: [null], categories: [] }, /annotations\[0\] is not an object/],
    [
      {
        images: [{ id: 1, file_name: 'a' }],
        categories: [{ id: 1, name: 'cat' }],
        annotations: [{ image_id: 1, category_id: 1, bbox: [1, 2, 3] }],
      },
      /annotations\[0\] has no bbox/,
    ],
  ])('says what is wrong with %j', (file, message) => {
    expect(() => readCoco(typeof file === 'string' ? file : JSON.stringify(file))).toThrow(message)
  })
})

describe('dragging a mark', () => {
  const part = fc.double({ min: 0, max: 1, noNaN: true })
  const by = fc.record({
    x: fc.double({ min: -2, max: 2, noNaN: true }),
    y: fc.double({ min: -2, max: 2, noNaN: true }),
  })
  const corners = fc.tuple(part, part, part, part).map(([a, b, c, d]) => [
    { x: Math.min(a, b), y: Math.min(c, d) },
    { x: Math.max(a, b), y: Math.max(c, d) },
  ])

  test('it stays on the image with its corners in order; moving keeps its size', () => {
    fc.assert(
      fc.property(corners, by, fc.constantFrom(null, ...HANDLES), (points, distance, handle) => {
        const [from, to] = reshape(points, handle, distance) as [{ x: number; y: number }, { x: number; y: number }]
        for (const value of [from.x, from.y, to.x, to.y]) {
          expect(value).toBeGreaterThanOrEqual(-1e-9)
          expect(value).toBeLessThanOrEqual(1 + 1e-9)
        }
        expect(to.x).toBeGreaterThanOrEqual(from.x)
        expect(to.y).toBeGreaterThanOrEqual(from.y)
        if (handle !== null) return
        expect(to.x - from.x).toBeCloseTo(points[1]!.x - points[0]!.x)
        expect(to.y - from.y).toBeCloseTo(points[1]!.y - points[0]!.y)
      }),
    )
  })

  test('an edge moves alone', () => {
    const points = [
      { x: 0.25, y: 0.25 },
      { x: 0.75, y: 0.75 },
    ]
    expect(reshape(points, 'e', { x: 0.125, y: 0.125 })).toEqual([points[0], { x: 0.875, y: 0.75 }])
    // Past the other edge, the box turns over.
    expect(reshape(points, 'w', { x: 0.7, y: 0 })[0]!.x).toBe(0.75)
  })
})

test('labels that show do not cover each other, and stay on the image where there is room', () => {
  const mark = fc.record({
    kind: fc.constantFrom('box' as const, 'point' as const),
    left: fc.integer({ min: 0, max: 900 }),
    top: fc.integer({ min: 0, max: 900 }),
    side: fc.integer({ min: 1, max: 100 }),
    width: fc.integer({ min: 20, max: 120 }),
  })
  fc.assert(
    fc.property(fc.array(mark, { maxLength: 60 }), fc.double({ min: 0.2, max: 4, noNaN: true }), (marks, scale) => {
      const labelled = marks.map(({ kind, left, top, side, width }, index) => {
        const size = kind === 'point' ? 0 : side
        return { id: String(index), kind, left, top, right: left + size, bottom: top + size, width }
      })
      const places = placeLabels(labelled, { width: 1000, height: 1000 }, scale)
      const shown = labelled.flatMap(({ id, width }) => {
        const { corner, by, isCrowded } = places.get(id)!
        return isCrowded ? [] : [{ x: corner.x * scale + by.x, y: corner.y * scale + by.y, width }]
      })
      for (const [index, one] of shown.entries()) {
        expect(one.x).toBeGreaterThanOrEqual(-1e-6)
        expect(one.x + one.width).toBeLessThanOrEqual(1000 * scale + 1e-6)
        for (const other of shown.slice(index + 1)) {
          const apart =
            one.x >= other.x + other.width - 1e-6 ||
            other.x >= one.x + one.width - 1e-6 ||
            Math.abs(one.y - other.y) >= LABEL_HEIGHT - 1e-6
          expect(apart).toBe(true)
        }
      }
    }),
  )
})
