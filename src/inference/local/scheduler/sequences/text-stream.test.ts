import fc from 'fast-check'
import { expect, test } from 'vitest'
import { TextStream } from './text-stream.ts'

test('holds back the bytes of a character until it is whole', () => {
  const stream = new TextStream()
  const [a, b, c, d] = Buffer.from('🦉')
  expect(stream.push(Uint8Array.of(0x41, a!))).toBe('A')
  expect(stream.push(Uint8Array.of(b!))).toBe('')
  expect(stream.push(Uint8Array.of(c!))).toBe('')
  expect(stream.push(Uint8Array.of(d!, 0x42))).toBe('🦉B')
})

test('gives the same text however its bytes are cut', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.array(fc.nat(7), { minLength: 1 }), (text, sizes) => {
      const bytes = Buffer.from(text)
      const stream = new TextStream()
      let joined = ''
      for (let at = 0, i = 0; at < bytes.length; i++) {
        const size = sizes[i % sizes.length]! + (i % sizes.length === 0 ? 1 : 0)
        joined += stream.push(bytes.subarray(at, at + size))
        at += size
      }
      expect(joined).toBe(bytes.toString())
    }),
  )
})

test('replaces bytes that are no text', () => {
  expect(new TextStream().push(Uint8Array.of(0x61, 0xff, 0x62))).toBe('a\ufffdb')
})
