import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Clip, Mark } from '../studio/src/marks/mark.ts'
import { addressIn, nameIn } from '../studio/src/media/address-text.ts'
import { problemOf } from '../studio/src/media/limits.ts'
import { wavOf } from '../studio/src/media/wav.ts'
import { lanesOf, shownSpans } from '../studio/src/stage/moments.ts'
import { timeText } from '../studio/src/stage/time-text.ts'

/** What the Studio's media know without a browser; `studio/media.test.ts` has the rest. */
const markAt = (time: number | undefined, label = 'cat', id = `${label}-${time}`): Mark => ({
  id,
  media: 'video',
  label,
  kind: 'point',
  points: [{ x: 0.5, y: 0.5 }],
  ...(time === undefined ? {} : { time }),
})

describe('marks of a video', () => {
  test('of a single moment are shown half a second before and after it, those without a time always', () => {
    const [moment, always] = shownSpans([markAt(3), markAt(undefined)])
    expect([moment!.from, moment!.to]).toEqual([2.5, 3.5])
    expect([always!.from, always!.to]).toEqual([Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY])
  })

  test('of one thing are shown one at a time, without a gap between the first and the last', () => {
    const times = fc.uniqueArray(fc.integer({ min: 0, max: 600 }), { minLength: 2, maxLength: 20 })
    fc.assert(
      fc.property(times, fc.double({ min: 0, max: 1, noNaN: true }), (tenths, part) => {
        const spans = shownSpans(tenths.map((tenth) => markAt(tenth / 10)))
        const [first, last] = [Math.min(...tenths) / 10, Math.max(...tenths) / 10]
        const now = first + (last - first) * part
        const shown = spans.filter(({ from, to }) => now >= from && now < to)
        expect(shown).toHaveLength(1)
        // The nearest one.
        const nearest = Math.min(...tenths.map((tenth) => Math.abs(tenth / 10 - now)))
        expect(Math.abs(shown[0]!.mark.time! - now)).toBeCloseTo(nearest, 6)
      }),
    )
  })

  test('have a lane for each label, in the order in which things begin', () => {
    const clip = (label: string, start: number, end?: number): Clip => ({
      id: `${label}-${start}`,
      media: 'video',
      label,
      start,
      ...(end === undefined ? {} : { end }),
    })
    const lanes = lanesOf([clip('dog', 4, 5), clip('dog', 1, 2), clip('bird', 3)], [markAt(0.5), markAt(undefined)])
    expect(lanes).toEqual([
      { label: 'cat', spans: [{ id: 'cat-0.5', start: 0.5, end: null }] },
      {
        label: 'dog',
        spans: [
          { id: 'dog-1', start: 1, end: 2 },
          { id: 'dog-4', start: 4, end: 5 },
        ],
      },
      { label: 'bird', spans: [{ id: 'bird-3', start: 3, end: null }] },
    ])
  })
})

test.each([
  [0, '0:00.0'],
  [2.5, '0:02.5'],
  [59.99, '0:59.9'],
  [65.3, '1:05.3'],
  [3600, '60:00.0'],
])('%d seconds are %s', (seconds, text) => expect(timeText(seconds)).toBe(text))

test.each([
  [' https://example.com/a.png\n', 'https://example.com/a.png'],
  ['http://[::1]:80/x', 'http://[::1]:80/x'],
  ['see https://example.com/a.png', null],
  ['https://example.com/a.png and more', null],
  ['javascript:alert(1)', null],
  ['https://', null],
  ['', null],
])('the address in %j is %j', (text, address) => expect(addressIn(text)).toBe(address))

test.each([
  ['https://example.com/pictures/red%20fox.jpg?size=2#top', 'red fox.jpg'],
  ['https://example.com/', 'example.com'],
  ['https://example.com/100%', '100%'],
  ['data:image/png;base64,AA==', 'pasted'],
])('a file at %s is called %s', (address, name) => expect(nameIn(address)).toBe(name))

describe('media over the limits of the server', () => {
  const image = { kind: 'image' as const, name: 'a.png', blob: { size: 1000 }, width: 4000, height: 3000, duration: 0 }

  test('is refused with a sentence that has both numbers', () => {
    expect(problemOf(image)).toBeNull()
    expect(problemOf({ ...image, blob: { size: 129 * 2 ** 20 } })).toContain(
      '129 MiB; the server takes files of up to 128 MiB',
    )
    expect(problemOf({ ...image, width: 20_000, height: 6000 })).toContain('120 megapixels')
    expect(problemOf({ ...image, kind: 'audio', width: 0, height: 0, duration: 700 })).toContain('11.7 minutes')
  })
})

test('samples become WAV and stay what they were', async () => {
  const samples = Float32Array.of(0, 0.5, -0.5, 1, -1, 2)
  const bytes = Buffer.from(await wavOf(samples, 16_000).arrayBuffer())
  expect(bytes.toString('latin1', 0, 4) + bytes.toString('latin1', 8, 16)).toBe('RIFFWAVEfmt ')
  expect([bytes.readUInt32LE(4), bytes.readUInt32LE(24), bytes.readUInt32LE(40)]).toEqual([
    bytes.length - 8,
    16_000,
    12,
  ])
  const read = Array.from(samples, (_, i) => bytes.readInt16LE(44 + i * 2) / 32_767)
  // What is too loud is cut.
  expect(read.map((value) => Number(value.toFixed(3)))).toEqual([0, 0.5, -0.5, 1, -1, 1])
})
