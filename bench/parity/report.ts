import { table } from '../support/table.ts'
import type { FamilyResult } from './family.ts'

export interface Report {
  /** Markdown. */
  readonly table: string
  /** What is wrong in the table's cells. */
  readonly notes: readonly string[]
  readonly passed: boolean
}

export function report(results: readonly FamilyResult[]): Report {
  const columns = [...new Set(results.flatMap(({ cells }) => [...cells.keys()]))]
  const rows = results.map(({ model, cells }) => [
    model.name,
    ...columns.map((column) => cells.get(column)?.text ?? ''),
  ])
  const notes = results.flatMap(({ model, cells }) =>
    [...cells].flatMap(([column, { detail }]) =>
      detail === undefined ? [] : [`- ${model.name}, ${column}: ${detail}`],
    ),
  )
  const passed = results.every(({ cells }) => [...cells.values()].every((cell) => cell.passed))
  return { table: table(['model', ...columns], rows), notes, passed }
}
