import fc from 'fast-check'
import { expect, test } from 'vitest'
import { readEvents } from './event-stream.ts'

async function eventsOf(pieces: readonly Uint8Array[]): Promise<string[]> {
  async function* stream() {
    yield* pieces
  }
  const events: string[] = []
  for await (const event of readEvents(stream())) events.push(event)
  return events
}

test('events are read the same, wherever the stream is cut and however its lines end', async () => {
  const event = fc.string({ unit: 'grapheme', maxLength: 12 }).filter((text) => !/[\r\n]/.test(text))
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(event, { minLength: 1, maxLength: 3 })),
      fc.constantFrom('\n', '\r\n', '\r'),
      fc.array(fc.nat()),
      async (events, end, cuts) => {
        const lines = events.flatMap((data) => [': comment', ...data.map((line) => `data: ${line}`), ''])
        const bytes = Buffer.from([...lines, ''].join(end))
        const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length]
        const pieces = places.slice(1).map((place, i) => bytes.subarray(places[i], place))
        expect(await eventsOf(pieces)).toEqual(events.map((data) => data.join('\n')))
      },
    ),
  )
})

test('an event that the stream breaks off is none', async () => {
  expect(await eventsOf([Buffer.from('data: a\n\ndata: b\n')])).toEqual(['a'])
})
