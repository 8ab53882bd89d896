import { expect, test } from 'vitest'
import { PrefixKey } from './prefix-key.ts'
import { Returns } from './returns.ts'

const keyOf = (...tokens: number[]) => PrefixKey.of([{ type: 'text', tokens: Int32Array.from(tokens) }])
/** A text of 40 tokens of its own. */
const text = (n: number) => keyOf(...Array.from({ length: 40 }, (_, i) => 1000 * n + i))

test('the share grows when ended work is continued, and falls when it is not', () => {
  const returns = new Returns()
  for (let n = 0; n < 100; n++) returns.leaves('a', text(n))
  expect(returns.share).toBeLessThan(0.05)
  expect(returns.share).toBeGreaterThan(0)
  for (let n = 0; n < 20; n++) returns.continued({ key: text(n) }, 40)
  expect(returns.share).toBeGreaterThan(0.8)
  for (let n = 0; n < 20; n++) returns.continued({ key: text(n) }, 4)
  expect(returns.share).toBeLessThan(0.2)
})

test('work that was released too soon counts when it is continued: once, for its organisation, and only if less was found', () => {
  const returns = new Returns()
  const key = text(1)
  returns.leaves('a', key)
  const before = returns.share
  const next = key.concat([1, 2, 3])
  expect(returns.computed('b', next, 0)).toBe(false)
  expect(returns.computed('a', next, 40)).toBe(false)
  expect(returns.computed('a', text(2), 0)).toBe(false)
  expect(returns.share).toBe(before)
  expect(returns.computed('a', next, 0)).toBe(true)
  expect(returns.share).toBeGreaterThan(before)
  expect(returns.computed('a', next, 0)).toBe(false)
})

test('remembers a limited number of released texts and cells', () => {
  const returns = new Returns()
  for (let n = 0; n < 300; n++) returns.leaves('a', text(n))
  expect(returns.computed('a', text(0), 0)).toBe(false)
  expect(returns.computed('a', text(299), 0)).toBe(true)
  const long = text(1).concat(Array.from({ length: 600_000 }, (_, at) => at))
  const other = text(2).concat(Array.from({ length: 600_000 }, (_, at) => at))
  for (const key of [long, other]) returns.leaves('b', key)
  expect(returns.computed('b', long, 0)).toBe(false)
  expect(returns.computed('b', other, 0)).toBe(true)
})
