import { expect, test } from 'vitest'
import { computeOf } from '../../native/compute.ts'
import { PrefillPace } from './prefill-pace.ts'

/** A machine on which a row takes 0.2 ms, and as much again for every 1,000 cells that it attends to. */
const stepMs = (rows: number, cells: number) => rows * 0.2 * (1 + (cells + rows / 2) / 1000)

/** Prefills a prompt. @returns what each step took, in ms, and how many rows it had. */
function prefill(pace: PrefillPace, length: number): { ms: number; rows: number }[] {
  const steps: { ms: number; rows: number }[] = []
  for (let cells = 0; cells < length; cells += steps.at(-1)!.rows) {
    const rows = Math.min(length - cells, pace.rowsWithin(pace.stepMs, cells))
    const ms = stepMs(rows, cells)
    pace.learn(rows, rows * (cells + rows / 2), ms)
    steps.push({ ms, rows })
  }
  return steps
}

test('steps take about as long at the end of a long prompt as at its beginning', () => {
  const steps = prefill(new PrefillPace(0.2, 512), 8000)
  expect(steps[0]!.rows).toBe(150)
  expect(Math.max(...steps.map(({ ms }) => ms))).toBeLessThan(60)
  for (const { ms } of steps.slice(-10, -1)) expect(ms).toBeLessThan(45)
})

test('a step has the minimum worthwhile rows even if they take long', () => {
  for (const { rows } of prefill(new PrefillPace(0.2, 512), 30_000).slice(0, -1))
    expect(rows).toBeGreaterThanOrEqual(16)
  const slow = new PrefillPace(5, 512)
  expect(slow.rowsWithin(slow.stepMs, 0)).toBe(64)
})

test('beside other requests, a step has 32 rows of a slow model, and as many as take 100 ms of a faster one', () => {
  const rows = (rowMs: number) => {
    const pace = new PrefillPace(rowMs, 512)
    pace.meet(2, false, 0)
    return pace.rowsWithin(pace.stepMs, 0)
  }
  expect([10, 5, 2, 1, 0.5, 0.1].map(rows)).toEqual([32, 32, 50, 100, 128, 160])
})

test('rows that are faster than expected lead to larger steps, up to the largest batch', () => {
  const pace = new PrefillPace(10, 512)
  for (let step = 0; step < 100; step++) pace.learn(64, 64 * 32, 1)
  expect(pace.rowsWithin(pace.stepMs, 0)).toBe(512)
})

test('on a GPU, short prompts do not make a long one look slow', () => {
  // Few rows take as long as it takes to read the weights.
  const gpuMs = (rows: number) => 5 + rows * 0.04
  const pace = new PrefillPace(gpuMs(512) / 512, 512, computeOf({ layers: 29, ofLayers: 29 }, false))
  for (let prompt = 0; prompt < 100; prompt++) pace.learn(64, 64 * 32, gpuMs(64))
  expect(pace.rowsWithin(pace.stepMs, 0)).toBe(512)
  // Long steps show when it has become slower.
  for (let prompt = 0; prompt < 100; prompt++) pace.learn(512, 512 * 256, 4 * gpuMs(512))
  expect(pace.rowsWithin(pace.stepMs, 0)).toBeLessThan(256)
})

test('for a while after several requests were running, steps are shorter', () => {
  const pace = new PrefillPace(0.2, 512)
  const alone = pace.stepMs
  pace.meet(2, false, 0)
  expect(pace.stepMs).toBeLessThan(alone)
  pace.meet(1, false, 500)
  expect(pace.stepMs).toBeLessThan(alone)
  pace.meet(1, false, 2000)
  expect(pace.stepMs).toBe(alone)
})

test('for requests that are likely to arrive, steps are shorter still', () => {
  const rows = (rowMs: number) => {
    const pace = new PrefillPace(rowMs, 512)
    pace.meet(1, true, 0)
    return pace.rowsWithin(pace.stepMs, 0)
  }
  expect([10, 1, 0.5, 0.1].map(rows)).toEqual([8, 8, 8, 30])
})
