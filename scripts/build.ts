/**
 * `npm run build`: compiles `src` to `dist`, which is what the npm package runs: Node does not strip types below
 * node_modules. It also builds the pages for browsers there. A checkout needs neither: it runs its sources, and set-up
 * builds the pages.
 *
 * `src/setup` is JavaScript already and stays where it is, in the package too. The compiler does not look into it here, and
 * so does not check types: `npm run typecheck` does.
 */
import { copyFile, glob, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildPage, isPageBuilt, PAGES } from '../src/setup/pages.mjs'
import { run } from '../src/setup/run.mjs'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const OUTPUT = join(ROOT, 'dist')
const COMPILER = join(ROOT, 'node_modules/typescript-7/bin/tsc')
/** What is read at run time beside the code. */
const ASSETS = ['storage/migrations/*.sql']

for (const page of PAGES) if (!(await isPageBuilt(page))) await buildPage(page)
await clean()
await run(process.execPath, [COMPILER, '-p', join(ROOT, 'tsconfig.build.json')])
for await (const file of glob(ASSETS, { cwd: join(ROOT, 'src') })) {
  await mkdir(dirname(join(OUTPUT, file)), { recursive: true })
  await copyFile(join(ROOT, 'src', file), join(OUTPUT, file))
}
const compiled = new Set<string>()
for await (const file of glob('**/*.js', { cwd: OUTPUT })) if (!isOfPage(file)) compiled.add(file)
for (const file of compiled) await point(file, compiled)
console.log(`${compiled.size} files are compiled in ${relative(ROOT, OUTPUT)}/, beside the pages for browsers`)

/** Whether a file or folder of the output is one of a page's. */
function isOfPage(file: string): boolean {
  return PAGES.some(({ directory }) => file.split('/')[0] === basename(directory))
}

/** Files of sources that are gone must not be packed. */
async function clean(): Promise<void> {
  for (const name of await readdir(OUTPUT)) {
    if (!isOfPage(name)) await rm(join(OUTPUT, name), { recursive: true })
  }
}

/**
 * Has a compiled file find what the compiler does not know as modules: workers and child processes, which are addresses
 * (`new URL('./x.ts', import.meta.url)`), and set-up.
 */
async function point(file: string, all: ReadonlySet<string>): Promise<void> {
  const code = await readFile(join(OUTPUT, file), 'utf8')
  const pointed = code
    .replace(/(?<=new URL\(')([^']+)\.ts(?=', import\.meta\.url\))/g, '$1.js')
    .replace(
      /(?<=from '|import\(')(?:\.\.?\/)+setup\/(?=[\w-]+\.mjs')/g,
      `${'../'.repeat(file.split('/').length)}src/setup/`,
    )
  for (const [, path] of pointed.matchAll(/new URL\('([^']+\.js)', import\.meta\.url\)/g)) {
    if (!all.has(join(dirname(file), path!))) throw new Error(`${file} starts ${path}, which is not there`)
  }
  const left = /['"][^'"\s]*\.ts['"]/.exec(pointed)
  if (left !== null) throw new Error(`${file} still names a source: ${left[0]}`)
  if (pointed !== code) await writeFile(join(OUTPUT, file), pointed)
}
