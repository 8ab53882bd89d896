import fc from 'fast-check'
import { expect, test } from 'vitest'
import { seal, unseal } from './seal.ts'

test('only what was sealed with this secret in this context is opened', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.string(), fc.array(fc.string()), (text, secret, context) => {
      const sealed = seal(text, secret, context)
      expect(unseal(sealed, secret, context)).toBe(text.toWellFormed())
      expect(unseal(sealed, `${secret}.`, context)).toBeNull()
      expect(unseal(sealed, secret, [...context, ''])).toBeNull()
    }),
  )
})

test('no character can be changed, added or left out', () => {
  const sealed = seal('a state', 'secret', ['organisation', 'model'])
  const isOpened = (text: string) => unseal(text, 'secret', ['organisation', 'model']) !== null
  expect(isOpened(sealed)).toBe(true)
  for (const [index, character] of [...sealed].entries()) {
    const other = character === 'A' ? 'B' : 'A'
    expect(isOpened(sealed.slice(0, index) + other + sealed.slice(index + 1))).toBe(false)
    expect(isOpened(sealed.slice(0, index) + sealed.slice(index + 1))).toBe(false)
  }
  for (const text of ['', '.', `${sealed}A`, ` ${sealed}`, `${sealed}=`]) expect(isOpened(text)).toBe(false)
})
