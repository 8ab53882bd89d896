import fc from 'fast-check'
import { expect, test, vi } from 'vitest'
import { FrontendMessages } from './wire.ts'

const STARTUP = Buffer.from([0, 0, 0, 8, 0, 3, 0, 0])

function message(type: string, bytes: number): Buffer {
  const message = Buffer.alloc(bytes + 5, type)
  message.writeInt32BE(bytes + 4, 1)
  return message
}

function* eventsOf(pieces: Iterable<Buffer>) {
  const messages = new FrontendMessages()
  for (const piece of pieces) yield* messages.push(piece)
}

test('groups of messages are the same however their bytes arrive', () => {
  const types = fc.array(fc.tuple(fc.constantFrom('P', 'B', 'E', 'S', 'Q', 'X'), fc.nat(9)), { maxLength: 9 })
  fc.assert(
    fc.property(types, fc.array(fc.nat(120), { maxLength: 12 }), (types, cuts) => {
      const all = Buffer.concat([STARTUP, ...types.map(([type, bytes]) => message(type, bytes))])
      const ends = [...cuts.map((cut) => Math.min(cut, all.length)), all.length].sort((a, b) => a - b)
      const pieces = ends.map((end, index) => all.subarray(ends[index - 1] ?? 0, end))
      expect([...eventsOf(pieces)]).toEqual([...eventsOf([all])])
    }),
  )
})

test('a large message is joined once, however many pieces it comes in', () => {
  const large = message('Q', 2 ** 20)
  const pieces = Array.from({ length: Math.ceil(large.length / 65_536) }, (_, i) =>
    large.subarray(i * 65_536, (i + 1) * 65_536),
  )
  const joined = vi.spyOn(Buffer, 'concat')
  try {
    const events = [...eventsOf([STARTUP, ...pieces])]
    expect(events).toMatchObject([{ type: 'startup' }, { type: 'group', bytes: { length: large.length } }])
    const lengths = joined.mock.results.map(({ value }) => value.length)
    expect(lengths.filter((length) => length > pieces[0]!.length)).toEqual([large.length, large.length])
  } finally {
    joined.mockRestore()
  }
})
