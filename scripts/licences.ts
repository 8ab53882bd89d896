/**
 * `npm run licences`: updates the table of licences in docs/contributing/packages.md from package-lock.json. With `--check` the script
 * fails when the table is out of date, as it does for a licence that has not been reviewed.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'

const PAGE = new URL('../docs/contributing/packages.md', import.meta.url)
const LOCK = new URL('../package-lock.json', import.meta.url)
const TABLE = /(<!-- licences: npm run licences -->\n\n).*(\n\n<!-- end of licences -->)/s
/** Licences under which a package may come along. The page says what those that are not permissive ask for. */
const ACCEPTED = new Set([
  '0BSD',
  'Apache-2.0',
  'Apache-2.0 AND LGPL-3.0-or-later',
  'Apache-2.0 AND LGPL-3.0-or-later AND MIT',
  'BlueOak-1.0.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'ISC',
  'LGPL-3.0-or-later',
  'MIT',
  'MPL-2.0',
])
/** What packages contain under other licences than they declare; the page says how we know. */
const CONTENTS: Readonly<Record<string, string>> = { '@seydx/node-av-': 'FFmpeg: GPL-3.0-or-later' }

interface LockedPackage {
  readonly version?: string
  readonly license?: string
  readonly dev?: boolean
}

const { packages } = JSON.parse(await readFile(LOCK, 'utf8')) as {
  readonly packages: Readonly<Record<string, LockedPackage>>
}
const rows = new Map<string, readonly string[]>()
for (const [path, { version = '', license = 'none', dev = false }] of Object.entries(packages)) {
  if (path === '' || dev) continue
  const name = path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)
  if (!ACCEPTED.has(license)) {
    throw new Error(`${name} has the licence ${license}: look at it, then add it to scripts/licences.ts`)
  }
  const content = Object.entries(CONTENTS).find(([prefix]) => name.startsWith(prefix))?.[1] ?? ''
  rows.set(`${name} ${version}`, [name, version, license, content])
}
const table = [
  '| package | version | declared licence | contains |',
  '|---|---|---|---|',
  ...[...rows.values()]
    .sort(([one], [other]) => (one! < other! ? -1 : 1))
    .map(([name, version, licence, content]) => `| \`${name}\` | ${version} | ${licence} | ${content} |`),
].join('\n')

const page = await readFile(PAGE, 'utf8')
const updated = page.replace(TABLE, (_all, begin: string, end: string) => `${begin}${table}${end}`)
if (!process.argv.includes('--check')) await writeFile(PAGE, updated)
else if (updated !== page) {
  console.error(`${fileURLToPath(PAGE)} is out of date: run "npm run licences"`)
  process.exitCode = 1
}
