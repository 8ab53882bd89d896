import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { withSettingsTable } from '../scripts/settings-markdown.ts'

test('docs/operations.md lists the settings as they are (`npm run settings-table` writes them)', async () => {
  const page = await readFile('docs/operations.md', 'utf8')
  expect(page).toBe(withSettingsTable(page))
  expect(page).toContain('\n| `LOOKOUT_PORT` | number | 8080 | ')
})

test('a page without a place for the table is an error', () => {
  expect(() => withSettingsTable('# Settings\n')).toThrow("The page has no lines '<!-- settings")
})
