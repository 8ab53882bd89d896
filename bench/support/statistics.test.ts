import { expect, test } from 'vitest'
import { medianInterval } from './statistics.ts'

const upTo = (count: number) => Array.from({ length: count }, (_, index) => count - index)

test('no interval of the median holds with 95 % for five values', () => {
  expect(medianInterval(upTo(5))).toBeNull()
})

test.each([
  [6, 1, 6],
  [8, 1, 8],
  [9, 2, 8],
  [12, 3, 10],
  [20, 6, 15],
])('of %i values, the median lies between those of ranks %i and %i', (count, least, most) => {
  expect(medianInterval(upTo(count))).toEqual([least, most])
})
