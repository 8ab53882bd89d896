import fc from 'fast-check'
import { expect, test } from 'vitest'
import { ReplyText } from './reply-text.ts'

/** Gives the text of each next piece. */
function reading() {
  const reply = new ReplyText({ branch: 0, completion: 0 }, false)
  return (bytes: Uint8Array) => reply.push([bytes], [])?.text ?? ''
}

test('holds back the bytes of a character until it is whole', () => {
  const push = reading()
  const [a, b, c, d] = Buffer.from('🦉')
  expect(push(Uint8Array.of(0x41, a!))).toBe('A')
  expect(push(Uint8Array.of(b!))).toBe('')
  expect(push(Uint8Array.of(c!))).toBe('')
  expect(push(Uint8Array.of(d!, 0x42))).toBe('🦉B')
})

test('gives the same text however its bytes are cut', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.array(fc.nat(7), { minLength: 1 }), (text, sizes) => {
      const bytes = Buffer.from(text)
      const push = reading()
      let joined = ''
      for (let at = 0, i = 0; at < bytes.length; i++) {
        const size = sizes[i % sizes.length]! + (i % sizes.length === 0 ? 1 : 0)
        joined += push(bytes.subarray(at, at + size))
        at += size
      }
      expect(joined).toBe(bytes.toString())
    }),
  )
})

test('replaces bytes that are no text', () => {
  expect(reading()(Uint8Array.of(0x61, 0xff, 0x62))).toBe('a\ufffdb')
})
