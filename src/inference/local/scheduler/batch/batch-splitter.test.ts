import { expect, test } from 'vitest'
import { BatchSplitter } from './batch-splitter.ts'

function split(splitter: BatchSplitter, rows: number): number[] {
  const parts: number[] = []
  for (let left = rows; left > 0; left -= parts.at(-1)!) parts.push(splitter.firstOf(left))
  return parts
}

test('decodes together where that is cheapest', () => {
  const splitter = new BatchSplitter(
    [
      { rows: 1, ms: 10 },
      { rows: 64, ms: 20 },
    ],
    64,
    512,
  )
  for (const rows of [1, 2, 17, 64]) expect(split(splitter, rows)).toEqual([rows])
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
  const splitter = new BatchSplitter(
    measured.map(([rows, ms]) => ({ rows: rows!, ms: ms! })),
    64,
    512,
  )
  expect(split(splitter, 2)).toEqual([1, 1])
  expect(split(splitter, 32)).toEqual([16, 16])
  expect(split(splitter, 64)).toEqual([16, 16, 16, 16])
})

test('does not split for a gain within the noise', () => {
  const splitter = new BatchSplitter(
    [
      { rows: 1, ms: 1 },
      { rows: 2, ms: 2.1 },
      { rows: 4, ms: 4.2 },
    ],
    4,
    512,
  )
  expect(split(splitter, 4)).toEqual([4])
})
