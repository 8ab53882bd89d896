import fc from 'fast-check'
import { expect, test } from 'vitest'
import { ApiError } from '../lib/errors/errors.ts'
import { locate } from './media-source.ts'

const bytes = fc.uint8Array({ minLength: 1, maxLength: 200 })
const blank = fc.constantFrom('', ' ', '\n', '\r\n\t')

/** Inserts white space after each piece of the text. */
function spaced(text: string, blanks: readonly string[]): string {
  const size = Math.ceil(text.length / blanks.length)
  return blanks.map((blank, index) => text.slice(index * size, (index + 1) * size) + blank).join('')
}

test('decodes base64 in either alphabet, with or without padding and line breaks', () => {
  const blanks = fc.array(blank, { minLength: 1, maxLength: 5 })
  fc.assert(
    fc.property(bytes, fc.constantFrom('base64' as const, 'base64url' as const), blanks, (data, encoding, blanks) => {
      const text = spaced(Buffer.from(data).toString(encoding), blanks)
      expect(locate({ type: 'base64', data: text }, 'p')).toEqual({ type: 'bytes', bytes: Buffer.from(data) })
      const url = `data:application/octet-stream;base64,${text}`
      expect(locate({ type: 'url', url }, 'p')).toEqual({ type: 'bytes', bytes: Buffer.from(data) })
    }),
  )
})

test('rejects a single invalid character', () => {
  const wrong = fc.constantFrom('!', '.', 'é', '=', '\u0000', '"')
  fc.assert(
    fc.property(bytes, fc.nat(300), wrong, (data, at, character) => {
      const digits = Buffer.from(data).toString('base64').replace(/=+$/, '')
      const place = at % digits.length
      const text = digits.slice(0, place) + character + digits.slice(place)
      expect(() => locate({ type: 'base64', data: text }, 'p')).toThrow(ApiError)
    }),
  )
})

test.each(['A', 'AAAAA', 'AA===', 'AA=A', '====', '='])('rejects %s as base64', (data) => {
  expect(() => locate({ type: 'base64', data }, 'p')).toThrow(/not valid base64|is empty/)
})
