import fc from 'fast-check'
import { expect, test } from 'vitest'
import { DraftPlanner } from './draft-planner.ts'

const draft = (...chances: number[]) => ({ tokens: chances.map((_, at) => at), chances })
const planner = (batchMs: (rows: number) => number) => new DraftPlanner({ batchMs })
const free = (rows: number) => 10 + rows * 0.01
const linear = (rows: number) => rows

test('where further rows cost nothing, whole drafts are verified; where they cost as much as others, none', () => {
  const drafts = [draft(0.9, 0.8, 0.1), draft(0.5)]
  expect(planner(free).plan(drafts, 2, 100)).toEqual([3, 1])
  expect(planner(linear).plan(drafts, 2, 100)).toEqual([0, 0])
  expect(planner(free).plan(drafts, 2, 4)).toEqual([2, 0])
  expect(planner(free).plan(drafts, 4, 4)).toEqual([0, 0])
  expect([planner(free).mayPay(1), planner(linear).mayPay(1)]).toEqual([true, false])
})

test('an unlikely token is not worth a row that a likely one is worth', () => {
  const plan = planner((rows) => 10 + 4 * (rows - 1)).plan([draft(0.95, 0.9, 0.1), draft(0.2, 0.1)], 2, 100)
  expect(plan).toEqual([2, 0])
})

test('verifies more rows even if the second one alone is too expensive', () => {
  const steep = planner((rows) => (rows === 1 ? 17 : 40 + 4 * rows))
  expect(steep.plan([draft(0.9, 0.9)], 1, 100)).toEqual([0])
  expect(steep.plan([draft(0.9, 0.9, 0.9, 0.9, 0.9, 0.9)], 1, 100)).toEqual([6])
  expect(steep.mayPay(1)).toBe(true)
})

test('drafts that take longer than calibration says are given up, and tried again later', () => {
  const learning = planner(free)
  const length = () => learning.plan([draft(0.9, 0.8)], 1, 100)[0]
  for (let step = 0; step < 10; step++) learning.learn(3, true, 5 * free(3))
  expect(length()).toBe(0)
  let steps = 0
  for (; length() === 0; steps++) learning.learn(1, false, free(1))
  expect(steps).toBeGreaterThan(20)
  // If all steps take longer, as deep in a context, the plan stays the same.
  for (let step = 0; step < 100; step++) learning.learn(step % 2 === 0 ? 1 : 3, step % 2 === 1, 3 * free(1))
  expect(length()).toBe(2)
})

test('a plan never takes more rows than there are, nor more time for a token than no drafts take', () => {
  const chances = fc.array(fc.double({ min: 0.01, max: 1, noNaN: true }), { maxLength: 8 }).map((list) => {
    let chance = 1
    return draft(...list.map((next) => (chance *= next)))
  })
  const cost = fc.array(fc.double({ min: 0, max: 5, noNaN: true }), { minLength: 100, maxLength: 100 }).map((steps) => {
    const times = [1]
    for (const step of steps) times.push(times.at(-1)! + step)
    return times
  })
  fc.assert(
    fc.property(fc.array(chances, { minLength: 1, maxLength: 10 }), fc.nat(60), cost, (drafts, spare, times) => {
      const rows = drafts.length
      const plan = planner((count) => times[count]!).plan(drafts, rows, rows + spare)
      const taken = plan.reduce((sum, length) => sum + length)
      expect(taken).toBeLessThanOrEqual(spare)
      const expected = drafts.reduce(
        (sum, { chances }, at) => sum + chances.slice(0, plan[at]).reduce((all, chance) => all + chance, 0),
        rows,
      )
      expect(times[rows + taken]! / expected).toBeLessThanOrEqual(times[rows]! / rows)
    }),
  )
})
