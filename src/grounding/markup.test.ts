import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Annotation, Leaf, LeafKind } from './annotation.ts'
import { takeHints } from './hints.ts'
import { MarkupError, parseMarkup } from './markup-parser.ts'
import { formatAnnotation } from './markup-writer.ts'

const coordinate = fc.integer({ min: 0, max: 1000 })
const point = fc.record({ x: coordinate, y: coordinate })
const tenths = fc.integer({ min: 0, max: 36_000 }).map((value) => value / 10)
const mention = fc.string({ minLength: 1, unit: 'grapheme' })
const attributes = fc.record({ mention, assetIdx: fc.nat(255) }, { requiredKeys: [] })

const POINTS = { point: [1, 1], point_box: [2, 2], polygon: [3, 9] } as const

function leaf(kind: LeafKind): fc.Arbitrary<Leaf> {
  const [minLength, maxLength] = POINTS[kind]
  return fc
    .tuple(attributes, fc.array(point, { minLength, maxLength }), fc.option(tenths, { nil: undefined }))
    .map(([own, points, t]) => ({ kind, ...own, ...(t === undefined ? {} : { t }), points }))
}

const anyLeaf = fc.constantFrom<LeafKind>('point', 'point_box', 'polygon').chain(leaf)
const clip = fc
  .tuple(attributes, tenths, fc.option(tenths, { nil: undefined }))
  .map(([own, start, end]) => ({ kind: 'clip' as const, ...own, start, ...(end === undefined ? {} : { end }) }))
const track = fc
  .tuple(fc.record({ mention }, { requiredKeys: [] }), fc.constantFrom<LeafKind>('point', 'point_box'), fc.nat(3))
  .chain(([own, kind, assetIdx]) =>
    fc.array(fc.tuple(leaf(kind), tenths), { minLength: 1, maxLength: 4 }).map((pairs) => ({
      kind: 'track' as const,
      ...own,
      waypoints: pairs.map(([waypoint, t]) => ({ ...waypoint, assetIdx, t })),
    })),
  )
const collection = fc
  .tuple(attributes, fc.array(fc.oneof(anyLeaf, clip, track), { minLength: 1, maxLength: 4 }))
  .map(([own, members]) => ({ kind: 'collection' as const, ...own, members }))
const annotation: fc.Arbitrary<Annotation> = fc.oneof(anyLeaf, clip, track, collection)

describe('markup', () => {
  test('reads back every annotation that it writes', () => {
    fc.assert(
      fc.property(annotation, (value) => {
        expect(parseMarkup(formatAnnotation(value))).toEqual([value])
      }),
      { numRuns: 500 },
    )
  })

  test('writes a mention of several lines in one', () => {
    const value = { kind: 'point' as const, mention: 'a\r\nb', points: [{ x: 1, y: 2 }] }
    expect(formatAnnotation(value)).toBe('<point mention="a&#xd;&#xa;b"> (1,2) </point>')
    expect(parseMarkup(formatAnnotation(value))).toEqual([value])
  })

  test('keeps prose around annotations exactly', () => {
    const prose = fc.string({ minLength: 1 }).filter((text) => !text.includes('<'))
    fc.assert(
      fc.property(prose, anyLeaf, prose, (before, value, after) => {
        expect(parseMarkup(before + formatAnnotation(value) + after)).toEqual([
          { kind: 'prose', text: before },
          value,
          { kind: 'prose', text: after },
        ])
      }),
    )
  })

  test('throws only MarkupError, for any text', () => {
    const piece = fc.constantFrom(
      '<point',
      '<point_box>',
      '</point>',
      ' (1,2)',
      '<collection mention="a">',
      '</collection>',
      '<track>',
      ' t="1 s"',
      '>',
      '/>',
      '<clip',
      'x',
    )
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
        try {
          parseMarkup(pieces.join(''))
        } catch (error) {
          expect(error).toBeInstanceOf(MarkupError)
        }
      }),
      { numRuns: 1000 },
    )
  })

  test.each([
    [
      "<POINT Mention='a &amp; b' label=x> ( 5 , 6 ) </Point>",
      { kind: 'point', mention: 'a & b', points: [{ x: 5, y: 6 }] },
    ],
    ['<clip mention="door" t="3s-7.25 seconds"/>', { kind: 'clip', mention: 'door', start: 3, end: 7.25 }],
    ['<clip t=4></clip>', { kind: 'clip', start: 4 }],
    ['<point t="1.5 seconds">(0,1000)</point>', { kind: 'point', t: 1.5, points: [{ x: 0, y: 1000 }] }],
  ])('reads the lenient spellings of %s', (text, expected) => {
    expect(parseMarkup(text)).toEqual([expected])
  })

  test.each([
    ['<point> (1,2) (3,4) </point>', 'invalid_point_coords'],
    ['<point> (1,1001) </point>', 'invalid_point_coords'],
    ['<point> (-1,2) </point>', 'invalid_point_coords'],
    ['<point_box> (1,2) </point_box>', 'invalid_box_coords'],
    ['<polygon> (1,2) (3,4) </polygon>', 'invalid_polygon_coords'],
    ['<clip mention="x" />', 'invalid_clip_timestamp'],
    ['<clip t="1">x</clip>', 'invalid_clip_body'],
    ['<point t="soon"> (1,2) </point>', 'invalid_time'],
    ['<point asset_idx="-1"> (1,2) </point>', 'invalid_asset_idx'],
    ['<collection> <collection> </collection> </collection>', 'invalid_collection_child'],
    ['<collection> two </collection>', 'invalid_collection_child'],
    ['<track> <clip t="1"/> </track>', 'invalid_track_child'],
    ['<track> <point> (1,2) </point> </track>', 'invalid_time'],
    ['<track><point t=1>(1,2)</point><point_box t=2>(1,2)(3,4)</point_box></track>', 'invalid_track_geometry'],
    ['<track><point t=1 asset_idx=0>(1,2)</point><point t=2>(1,2)</point></track>', 'invalid_track_asset'],
    ['a </point>', 'unexpected_close_tag'],
    ['<point mention="a', 'unclosed_tag'],
    ['<point mention="a < b"> (1,2) </point>', 'unclosed_tag'],
    ['<point> (1,2)', 'incomplete_annotation'],
    ['<point> x', 'invalid_point_coords'],
    ['<collection> <point> (1,2) </point>', 'incomplete_annotation'],
  ])('rejects %s', (text, code) => {
    expect(() => parseMarkup(text)).toThrow(expect.objectContaining({ code }))
  })

  test('an empty container annotates nothing, and other tags are prose', () => {
    expect(parseMarkup('<collection mention="x"> </collection>')).toEqual([])
    expect(parseMarkup('<b>2 < 3</b> <pointless>')).toEqual([{ kind: 'prose', text: '<b>2 < 3</b> <pointless>' }])
  })
})

describe('hints', () => {
  test.each([
    ['<hint>BOX</hint>Find the cups.', ['BOX'], 'Find the cups.'],
    ['Find. <hint> box  THINK </hint>', ['BOX', 'THINK'], 'Find. '],
    ['<hint>BOX</hint><hint>CLIP</hint>', ['BOX', 'CLIP'], ''],
    ['<hint>look left</hint>', [], '<hint>look left</hint>'],
    ['<hint></hint>', [], '<hint></hint>'],
    ['no hint', [], 'no hint'],
  ])('%s', (text, hints, rest) => {
    expect(takeHints(text)).toEqual({ hints, rest })
  })
})
