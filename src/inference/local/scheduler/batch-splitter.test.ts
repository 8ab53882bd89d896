import { expect, test } from 'vitest'
import { BatchSplitter } from './batch-splitter.ts'

function split(planner: BatchSplitter, rows: number): number[] {
  const parts: number[] = []
  for (let left = rows; left > 0; left -= parts.at(-1)!) parts.push(planner.firstOf(left))
  return parts
}

test('decodes together where that is cheapest', () => {
  const planner = new BatchSplitter(
    [
      { rows: 1, ms: 10 },
      { rows: 64, ms: 20 },
    ],
    64,
    512,
  )
  for (const rows of [1, 2, 17, 64]) expect(split(planner, rows)).toEqual([rows])
})

test('splits rows where parts are cheaper', () => {
  // As measured for a model whose fast path takes few rows.
  const measured = [
    [1, 17],
    [2, 42],
    [4, 58],
    [8, 71],
    [16, 100],
    [32, 250],
    [64, 500],
  ]
  const planner = new BatchSplitter(
    measured.map(([rows, ms]) => ({ rows: rows!, ms: ms! })),
    64,
    512,
  )
  expect(split(planner, 2)).toEqual([1, 1])
  expect(split(planner, 32)).toEqual([16, 16])
  expect(split(planner, 64)).toEqual([16, 16, 16, 16])
})

test('does not split for a gain within the noise', () => {
  const planner = new BatchSplitter(
    [
      { rows: 1, ms: 1 },
      { rows: 2, ms: 2.1 },
      { rows: 4, ms: 4.2 },
    ],
    4,
    512,
  )
  expect(split(planner, 4)).toEqual([4])
})
