/**
 * Draws the rooms of `src` and the imports between them into `docs/contributing/rooms.md`, with dependency-cruiser. `npm run rooms`
 * writes the page; with `--check` the script fails when the page is out of date.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const PAGE = fileURLToPath(new URL('../docs/contributing/rooms.md', import.meta.url))
/** Excluded rooms: nearly every room uses them, and their arrows would hide the others. */
const LEFT_OUT = '^src/(lib|config|setup)/|[.]test[.]ts$'
/** Patterns of rooms. Files beside them form a room of their own, and so does every other folder of `src`. */
const ROOMS = [
  'api/(http|openai|native|pages)',
  'conversation/(request|prompt|tools|reply)',
  'inference/(constraints|engines|local(/(host|worker|scheduler|cache|tokens|sampling|native))?)',
  'inference/remote(/(vllm|sglang|openai|http|servers|tokens|wire))?',
  '[^/]+',
]

const arguments_ = ['--include-only', '^src/', '--exclude', LEFT_OUT, '--collapse', `^src/(${ROOMS.join('|')})`]
const drawing = execFileSync('npx', ['depcruise', 'src', ...arguments_, '--output-type', 'mermaid'], {
  encoding: 'utf8',
  stdio: ['ignore', 'pipe', 'ignore'],
})
const page = `# The rooms of src

\`npm run rooms\` makes this drawing from the imports. An arrow points at what a room uses. \`lib\`, \`config\` and \`setup\` are
left out: they are at the bottom, and nearly every room uses them. [architecture.md](architecture.md) says what each room
is for; \`.dependency-cruiser.mjs\` lists which arrows are allowed, and \`npm run lint\` rejects all others.

\`\`\`mermaid
${drawing.replace('flowchart LR', 'flowchart TB').trim()}
\`\`\`
`

if (!process.argv.includes('--check')) writeFileSync(PAGE, page)
else if (readFileSync(PAGE, 'utf8') !== page) {
  console.error('docs/contributing/rooms.md is out of date: run "npm run rooms"')
  process.exitCode = 1
}
