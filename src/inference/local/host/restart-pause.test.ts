import { expect, test } from 'vitest'
import { RestartPause } from './restart-pause.ts'

const CRASHED_EARLY = { ms: 500, servedRequests: 0 }

test('the pause grows while processes end early, up to 8 seconds', () => {
  const pause = new RestartPause()
  const pauses = Array.from({ length: 8 }, () => pause.next(CRASHED_EARLY))
  expect(pauses).toEqual([250, 500, 1000, 2000, 4000, 8000, 8000, 8000])
})

test.each([
  ['ran for a while', { ms: 10_000, servedRequests: 0 }],
  ['served some requests', { ms: 500, servedRequests: 3 }],
])('the pause is short again after a process that %s', (_, life) => {
  const pause = new RestartPause()
  for (let i = 0; i < 8; i++) pause.next(CRASHED_EARLY)
  expect(pause.next(life)).toBe(250)
  expect(pause.next(CRASHED_EARLY)).toBe(500)
})
