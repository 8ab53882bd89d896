import fc from 'fast-check'
import { expect, test } from 'vitest'
import { AnnotationScanner, type PlacedAnnotation } from './annotation-scanner.ts'

const ANNOTATIONS = [
  '<point> (1,2) </point>',
  '<point_box mention="a &gt; b"> (1,2) (3,4) </point_box>',
  '<polygon mention="c"> (1,2) (3,4) (5,6) </polygon>',
  '<clip mention="d" t="1 seconds 2.5 seconds" />',
  '<collection mention="e"> <point> (1,2) </point> <point> (3,4) </point> </collection>',
  '<track mention="f"> <point_box t="0.0 seconds"> (1,2) (3,4) </point_box> </track>',
]
/** What only begins like one, or is wrong. */
const PROSE = [
  'a < b',
  '<point',
  '<',
  '<b>bold</b>',
  '<polygon points="1,2"/>',
  '</point>',
  '<clip t="x" />',
  '😀 ',
  '<points>',
]

const texts = fc.array(
  fc.oneof(
    fc.constantFrom(...ANNOTATIONS).map((text) => ({ text, is: true })),
    fc.constantFrom(...PROSE, 'x', ' ').map((text) => ({ text, is: false })),
  ),
  { maxLength: 8 },
)

function found(pieces: readonly string[]): PlacedAnnotation[] {
  const scanner = new AnnotationScanner()
  return [...pieces.flatMap((piece) => scanner.push(piece)), ...scanner.end()]
}

test('the same annotations are found however the text is split, each at its place', () => {
  fc.assert(
    fc.property(texts, fc.array(fc.nat(200), { maxLength: 6 }), (parts, cuts) => {
      const text = parts.map((part) => part.text).join('')
      const whole = found([text])
      const at = [...new Set([0, ...cuts.filter((cut) => cut < text.length), text.length])].sort((a, b) => a - b)
      const pieces = at.slice(1).map((end, i) => text.slice(at[i], end))
      expect(found(pieces)).toEqual(whole)
      for (const { start, end } of whole) expect(ANNOTATIONS).toContain(text.slice(start, end))
    }),
  )
})

test('all annotations between prose are found', () => {
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...ANNOTATIONS), { maxLength: 5 }), (markup) => {
      const text = markup.map((one) => `See ${one}, `).join('')
      expect(found([...text]).map(({ start, end }) => text.slice(start, end))).toEqual(markup)
    }),
  )
})

test('an annotation is told with the text that completes it', () => {
  const scanner = new AnnotationScanner()
  expect(scanner.push(`A ${ANNOTATIONS[1]!.slice(0, -1)}`)).toEqual([])
  expect(scanner.push('> and')).toMatchObject([{ annotation: { kind: 'point_box', mention: 'a > b' }, start: 2 }])
  expect(scanner.end()).toEqual([])
})

test('what cannot become an annotation keeps none behind it waiting', () => {
  for (const text of ['<track src="s.vtt">\n</video>', '<collection> of <i>', '<point mention="a\n', "<clip t='1 <"]) {
    expect(new AnnotationScanner().push(`${text}${ANNOTATIONS[0]}`)).toMatchObject([{ start: text.length }])
  }
})
