import { expect, test } from 'vitest'
import { PriorityPace } from './priority-pace.ts'

test('beside other work, short background steps get a fiftieth of the time and long ones a hundredth', () => {
  const pace = new PriorityPace()
  expect(pace.isDue('background', 0)).toBe(true)
  pace.stepped('background', 10, 10)
  expect([pace.isDue('background', 499), pace.isDue('background', 500)]).toEqual([false, true])
  pace.stepped('background', 300, 200)
  expect([pace.isDue('background', 20_099), pace.isDue('background', 20_100)]).toEqual([false, true])
})

test('beside interactive work, live steps get a quarter of the time, and give back what they borrow', () => {
  const pace = new PriorityPace()
  pace.stepped('live', 10, 10)
  expect([pace.isDue('live', 39), pace.isDue('live', 40), pace.isDue('background', 10)]).toEqual([false, true, true])
  pace.stepped('live', 30, 10, true)
  expect([pace.isDue('live', 79), pace.isDue('live', 80)]).toEqual([false, true])
})

test('for a while after more urgent work, steps are short', () => {
  const pace = new PriorityPace()
  pace.stepped('background', 200, 200)
  expect(pace.isWatchful('background', 200)).toBe(false)
  pace.stepped('live', 400, 5)
  expect([pace.isWatchful('background', 400), pace.isWatchful('live', 400)]).toEqual([true, false])
  pace.stepped('interactive', 500, 5)
  expect([500, 10_499, 10_500].map((now) => pace.isWatchful('live', now))).toEqual([true, true, false])
})
