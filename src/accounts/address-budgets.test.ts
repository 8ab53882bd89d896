import { expect, test } from 'vitest'
import { AddressBudgets } from './address-budgets.ts'

let now: number
const clock = () => now
const unknown = async () => null

async function rejections(budgets: AddressBudgets, address: string, times: number): Promise<number> {
  const lookups = Array.from({ length: times }, () => budgets.attempt(address, unknown))
  return (await Promise.allSettled(lookups)).filter(({ status }) => status === 'rejected').length
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
  expect(await rejections(budgets, one, burst + 5)).toBe(5)
  expect(await rejections(budgets, other, 1)).toBe(1)
  expect(await rejections(budgets, '198.51.100.1', 1)).toBe(0)
  now += 3_000
  expect(await rejections(budgets, other, 1)).toBe(0)
})

test('a public address that spent its budget gets one attempt every three seconds, and is told when', async () => {
  now = 0
  const budgets = new AddressBudgets(clock)
  await rejections(budgets, '203.0.113.7', 20)
  now += 1_000
  await expect(budgets.attempt('203.0.113.7', unknown)).rejects.toMatchObject({ status: 429, retryAfter: 2 })
  now += 2_000
  expect(await rejections(budgets, '203.0.113.7', 2)).toBe(1)
})

test('valid keys and failed lookups cost nothing', async () => {
  now = 0
  const budgets = new AddressBudgets(clock)
  for (let n = 0; n < 50; n++) {
    expect(await budgets.attempt('203.0.113.7', async () => 'somebody')).toBe('somebody')
    await expect(budgets.attempt('203.0.113.7', () => Promise.reject(new Error('down')))).rejects.toThrow('down')
  }
  expect(await rejections(budgets, '203.0.113.7', 20)).toBe(0)
})
