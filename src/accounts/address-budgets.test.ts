import { expect, test } from 'vitest'
import { AddressBudgets } from './address-budgets.ts'

let now: number
const clock = () => now
const nobody = async () => null

async function refusals(budgets: AddressBudgets, address: string, times: number): Promise<number> {
  const asked = Array.from({ length: times }, () => budgets.ask(address, nobody))
  return (await Promise.allSettled(asked)).filter(({ status }) => status === 'rejected').length
}

test.each([
  ['203.0.113.7', '203.0.113.7', 20],
  ['2001:db8:1:2::1', '2001:db8:1:2:ffff::9', 20],
  ['::ffff:203.0.113.7', '203.0.113.7', 20],
  ['127.0.0.1', '127.0.0.1', 200],
  ['10.1.2.3', '10.1.2.3', 200],
])('%s and %s share one budget', async (one, other, burst) => {
  now = 0
  const budgets = new AddressBudgets(clock)
  expect(await refusals(budgets, one, burst + 5)).toBe(5)
  expect(await refusals(budgets, other, 1)).toBe(1)
  expect(await refusals(budgets, '198.51.100.1', 1)).toBe(0)
  now += 3_000
  expect(await refusals(budgets, other, 1)).toBe(0)
})

test('a public address may ask once in three seconds from then on, and is told when', async () => {
  now = 0
  const budgets = new AddressBudgets(clock)
  await refusals(budgets, '203.0.113.7', 20)
  now += 1_000
  await expect(budgets.ask('203.0.113.7', nobody)).rejects.toMatchObject({ status: 429, retryAfter: 2 })
  now += 2_000
  expect(await refusals(budgets, '203.0.113.7', 2)).toBe(1)
})

test('keys that somebody holds cost nothing, and questions that fail neither', async () => {
  now = 0
  const budgets = new AddressBudgets(clock)
  for (let n = 0; n < 50; n++) {
    expect(await budgets.ask('203.0.113.7', async () => 'somebody')).toBe('somebody')
    await expect(budgets.ask('203.0.113.7', () => Promise.reject(new Error('away')))).rejects.toThrow('away')
  }
  expect(await refusals(budgets, '203.0.113.7', 20)).toBe(0)
})
