import { expect, test } from 'vitest'
import { RestartPause } from './restart-pause.ts'

const USELESS = { ms: 500, servedRequests: 0 }

test('grows while processes do not last, up to some seconds', () => {
  const pause = new RestartPause()
  const pauses = Array.from({ length: 8 }, () => pause.next(USELESS))
  expect(pauses).toEqual([250, 500, 1000, 2000, 4000, 8000, 8000, 8000])
})

test.each([
  ['lived for a while', { ms: 10_000, servedRequests: 0 }],
  ['served some requests', { ms: 500, servedRequests: 3 }],
])('is short again for a process that %s', (_, life) => {
  const pause = new RestartPause()
  for (let i = 0; i < 8; i++) pause.next(USELESS)
  expect(pause.next(life)).toBe(250)
  expect(pause.next(USELESS)).toBe(500)
})
