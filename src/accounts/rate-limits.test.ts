import { expect, test } from 'vitest'
import type { Principal } from './principal.ts'
import { LocalRateLimits } from './rate-limits.ts'

const a: Principal = { organisation: 'a', key: 'k', scopes: new Set(), limits: {} }
const b: Principal = { ...a, organisation: 'b' }

test('allows the limit in any minute, per organisation and bucket', () => {
  let now = 1_000
  const limits = new LocalRateLimits({}, () => now)
  for (let i = 0; i < 30; i++) {
    expect(limits.take(a, 'models')).toMatchObject({ allowed: true, remaining: 29 - i })
    now += 1_000
  }
  expect(limits.take(a, 'models')).toEqual({
    allowed: false,
    limit: 30,
    remaining: 0,
    retryAfterMs: 30_000,
    resetMs: 59_000,
  })
  expect(limits.take(b, 'models').allowed).toBe(true)
  expect(limits.take(a, 'chat').allowed).toBe(true)

  now += 29_999
  expect(limits.take(a, 'models').allowed).toBe(false)
  now += 1
  expect(limits.take(a, 'models').allowed).toBe(true)
  expect(limits.take(a, 'models').allowed).toBe(false)
  now += 60_000
  expect(limits.take(a, 'models')).toMatchObject({ allowed: true, remaining: 29 })
})
