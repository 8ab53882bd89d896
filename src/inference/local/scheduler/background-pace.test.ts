import { expect, test } from 'vitest'
import { BackgroundPace } from './background-pace.ts'

test('beside other work, short steps get a fiftieth of the time and long ones a hundredth', () => {
  const pace = new BackgroundPace()
  expect(pace.isDue(0)).toBe(true)
  pace.stepped(true, 10, 10)
  expect([pace.isDue(499), pace.isDue(500)]).toEqual([false, true])
  pace.stepped(true, 300, 200)
  expect([pace.isDue(20_099), pace.isDue(20_100)]).toEqual([false, true])
})

test('for a while after other work, steps are short', () => {
  const pace = new BackgroundPace()
  pace.stepped(true, 200, 200)
  expect(pace.isWatchful(200)).toBe(false)
  pace.stepped(false, 500, 5)
  expect([pace.isWatchful(500), pace.isWatchful(10_499), pace.isWatchful(10_500)]).toEqual([true, true, false])
})
