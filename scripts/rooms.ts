/**
 * Draws the rooms of `src` and the imports between them into `docs/contributing/rooms.md`, with dependency-cruiser. `npm run rooms`
 * writes the page; with `--check` the script fails when the page is out of date, and for each import that
 * `.dependency-cruiser.mjs` does not allow: the imports are read once for both. It also fails when the tree in
 * `docs/contributing/architecture.md` lacks a folder of `src`, or names a file or folder that is not there, and when a folder holds too
 * many modules to be read as one list.
 */
import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { cruise, format, type ICruiseResult } from 'dependency-cruiser'
import extractOptions from 'dependency-cruiser/config-utl/extract-depcruise-options'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const MAP = join(ROOT, 'docs/contributing/architecture.md')
const PAGE = join(ROOT, 'docs/contributing/rooms.md')
/** In one folder, without its tests and its folders. */
const MOST_MODULES = 20
/** Where the tree's descriptions begin. */
const NOTES = 23
/** Excluded rooms: nearly every room uses them, and their arrows would hide the others. */
const LEFT_OUT = '^src/(lib|config|setup)/|[.]test[.]ts$'
/** Patterns of rooms. Files beside them form a room of their own, and so does every other folder of `src`. */
const ROOMS = [
  'api/(http|openai|native|pages|surfaces)',
  'conversation/(call|request|prompt|tools|reply)',
  'inference/(constraints|engines|local(/(host|worker|scheduler|cache|tokens|sampling|native))?)',
  'inference/remote(/(vllm|sglang|openai|http|servers|tokens|wire))?',
  '[^/]+',
]

process.chdir(ROOT)
const isCheck = process.argv.includes('--check')
const options = await extractOptions('./.dependency-cruiser.mjs')
const { output } = await cruise(['src', 'test', 'bench', 'scripts'], options)
const imports = output as ICruiseResult
const { output: drawing } = await format(imports, {
  includeOnly: '^src/',
  exclude: LEFT_OUT,
  collapse: `^src/(${ROOMS.join('|')})`,
  outputType: 'mermaid',
})
const page = `# The rooms of src

\`npm run rooms\` makes this drawing from the imports. An arrow points at what a room uses. \`lib\`, \`config\` and \`setup\` are
left out: they are at the bottom, and nearly every room uses them. [architecture.md](architecture.md) says what each room
is for; \`.dependency-cruiser.mjs\` lists which arrows are allowed, and \`npm run lint\` rejects all others.

\`\`\`mermaid
${sorted(String(drawing).replace('flowchart LR', 'flowchart TB').trim())}
\`\`\`
`

const listed = listedPaths(readFileSync(MAP, 'utf8'))
const complaints = [
  ...listed.filter((path) => !existsSync(join(ROOT, path))).map((path) => `${path} is in the tree, and not there`),
  ...globSync('src/**/', { cwd: ROOT })
    .filter((folder) => folder !== 'src' && !listed.includes(`${folder}/`))
    .map((folder) => `${folder}/ is not in the tree`),
].map((complaint) => `docs/contributing/architecture.md: ${complaint}`)
const modules = globSync('{src,studio/src}/**/*.{ts,tsx,mjs}', { cwd: ROOT, exclude: ['**/*.test.ts'] })
for (const [folder, { length }] of Map.groupBy(modules, dirname)) {
  if (length > MOST_MODULES) complaints.push(`${folder}: ${length} modules; more than ${MOST_MODULES} need folders`)
}

if (isCheck) {
  const { output: violations, exitCode } = await format(imports, { outputType: 'err' })
  console.log(violations)
  if (exitCode !== 0) process.exitCode = 1
  if (readFileSync(PAGE, 'utf8') !== page) {
    complaints.push('docs/contributing/rooms.md is out of date: run "npm run rooms"')
  }
} else writeFileSync(PAGE, page)
for (const complaint of complaints) console.error(complaint)
if (complaints.length > 0) process.exitCode = 1

/** With the arrows in an order that does not depend on which file is read first. */
function sorted(text: string): string {
  const isArrow = (line: string) => line.includes('-->')
  const lines = text.split('\n')
  return [...lines.filter((line) => !isArrow(line)), ...lines.filter(isArrow).sort()].join('\n')
}

/** The paths in the page's tree of `src`; those of folders end with a slash. */
function listedPaths(text: string): string[] {
  const [, tree = ''] = /^src\/\n((?: {2}.+\n)+)/m.exec(text) ?? []
  const above: string[] = []
  return [...tree.matchAll(/^( +)([\w.-]+\/?) /gm)]
    .filter(([, indent]) => indent!.length < NOTES)
    .map(([, indent, name]) => {
      above.splice(indent!.length / 2 - 1, Number.POSITIVE_INFINITY, name!)
      return `src/${above.join('')}`
    })
}
