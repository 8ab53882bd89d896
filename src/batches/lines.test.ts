import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type FileLine, splitLines } from './lines.ts'

async function split(pieces: Iterable<Uint8Array>, limit = 1_000): Promise<FileLine[]> {
  async function* stream() {
    yield* pieces
  }
  const lines: FileLine[] = []
  for await (const line of splitLines(stream(), limit)) lines.push(line)
  return lines
}

const text = fc.string({ unit: fc.constantFrom('a', 'é', '😀', ' ', '\t', '\r', '\n', '\n', '{', '"'), maxLength: 60 })

test('lines are the same however the bytes arrive, and stand where they say', async () => {
  await fc.assert(
    fc.asyncProperty(text, fc.array(fc.nat(70), { maxLength: 8 }), async (content, cuts) => {
      const bytes = Buffer.from(content)
      const ends = [...cuts.map((cut) => Math.min(cut, bytes.length)), bytes.length].sort((a, b) => a - b)
      const pieces = ends.map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end))
      const found = await split(pieces)
      const expected = content
        .split('\n')
        .map((line, index) => ({ text: line.replace(/^[ \t\r]+|[ \t\r]+$/g, ''), number: index + 1 }))
        .filter((line) => line.text !== '')
      expect(found.map((line) => ({ text: line.bytes!.toString(), number: line.number }))).toEqual(expected)
      for (const { start, length, bytes: line } of found) expect(bytes.subarray(start, start + length)).toEqual(line)
    }),
  )
})

test('a line that is too long is left out, and the others are not', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat(30), { maxLength: 10 }), fc.integer({ min: 1, max: 9 }), async (lengths, size) => {
      const bytes = Buffer.from(lengths.map((length) => 'x'.repeat(length)).join('\n'))
      const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) =>
        bytes.subarray(index * size, (index + 1) * size),
      )
      const found = await split(pieces, 15)
      expect(found.map(({ length, bytes }) => [length, bytes?.length ?? null])).toEqual(
        lengths.filter((length) => length > 0).map((length) => [length, length > 15 ? null : length]),
      )
    }),
  )
})

test('a byte order mark is no part of the first line', async () => {
  const [line] = await split([Buffer.from('\ufeff{}\r\n')])
  expect(line).toMatchObject({ number: 1, start: 3, length: 2 })
})
