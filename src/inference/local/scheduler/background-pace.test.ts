import { expect, test } from 'vitest'
import { BackgroundPace } from './background-pace.ts'

test('beside other work, short steps have a tenth of the time and long ones a hundredth', () => {
  const pace = new BackgroundPace(1000)
  expect(pace.isDue(0)).toBe(true)
  pace.stepped(true, 10, 10)
  expect([pace.isDue(99), pace.isDue(100)]).toEqual([false, true])
  pace.stepped(true, 300, 200)
  expect([pace.isDue(20_099), pace.isDue(20_100)]).toEqual([false, true])
})

test('with no other work, nothing waits longer than the quiet time', () => {
  const pace = new BackgroundPace(1000)
  pace.stepped(true, 200, 200)
  expect(pace.waitMs(200)).toBe(0)
  pace.stepped(false, 500, 5)
  expect([pace.waitMs(600), pace.waitMs(1500), pace.waitMs(1501)]).toEqual([900, 0, 0])
  pace.stepped(true, 1600, 10)
  pace.stepped(false, 1650, 5)
  // Its step is due before.
  expect(pace.waitMs(1660)).toBe(30)
})
