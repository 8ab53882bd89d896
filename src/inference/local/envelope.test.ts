import fc from 'fast-check'
import { expect, test } from 'vitest'
import { pack, unpack } from './envelope.ts'

const view = fc.oneof(fc.uint8Array(), fc.float32Array({ noNaN: true }))

test('unpacking restores what was packed, and packing copies no views', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.array(view), (value, views) => {
      const envelope = pack({ value, views })
      expect(unpack(envelope)).toEqual({ value, views })
      expect(envelope.views).toHaveLength(views.length)
      for (const [index, packed] of envelope.views.entries()) expect(packed).toBe(views[index])
    }),
  )
})

test('a value that cannot be packed or unpacked throws an error', () => {
  let deep: unknown = 1
  for (let level = 0; level < 100_000; level++) deep = [deep]
  expect(() => pack(deep)).toThrow()
  expect(() => pack({ schema: () => 1 })).toThrow()
  expect(() => unpack({ body: pack({ pixels: new Uint8Array(1) }).body, views: [] })).toThrow()
  fc.assert(
    fc.property(fc.uint8Array(), (body) => {
      try {
        unpack({ body, views: [] })
      } catch (error) {
        expect(error).toBeInstanceOf(Error)
      }
    }),
  )
})
