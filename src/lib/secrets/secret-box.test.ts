import fc from 'fast-check'
import { expect, test } from 'vitest'
import { SecretBox } from './secret-box.ts'

const box = new SecretBox('a secret of the server')

test('only the same secret opens a text, for what it belongs to', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.string(), (text, context) => {
      const stored = box.seal(text, context)
      expect(box.open(stored, context)).toBe(text)
      expect(new SecretBox('a secret of the server').open(stored, context)).toBe(text)
      expect(box.open(stored, `${context}.`)).toBeNull()
      expect(new SecretBox('another secret').open(stored, context)).toBeNull()
      expect(new SecretBox(null).open(stored, context)).toBeNull()
    }),
  )
})

test('texts are not recognised, and what was changed or cut is not opened', () => {
  const stored = box.seal('whsec_abc', 'watch_1')
  expect(stored).not.toContain('whsec')
  expect(stored).not.toBe(box.seal('whsec_abc', 'watch_1'))
  for (let index = 'sealed:'.length; index < stored.length; index++) {
    const other = stored[index] === 'A' ? 'Q' : 'A'
    expect(box.open(stored.slice(0, index) + other + stored.slice(index + 1), 'watch_1')).not.toBe('whsec_abc')
    expect(box.open(stored.slice(0, index), 'watch_1')).toBeNull()
  }
})

test('without a secret texts stay as they are, and can still be read with one', () => {
  const open = new SecretBox(null)
  expect([open.seal('whsec_abc', 'watch_1'), open.isLocked, box.isLocked]).toEqual(['whsec_abc', false, true])
  expect(box.open('whsec_abc', 'watch_1')).toBe('whsec_abc')
})
