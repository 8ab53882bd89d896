/** `npm run settings-table`: updates the table of settings in docs/operations.md. */
import { readFile, writeFile } from 'node:fs/promises'
import { withSettingsTable } from './settings-markdown.ts'

const PAGE = new URL('../docs/operations.md', import.meta.url)
await writeFile(PAGE, withSettingsTable(await readFile(PAGE, 'utf8')))
