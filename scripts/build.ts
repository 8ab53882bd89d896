/**
 * `npm run build`: compiles `src` to `dist`, which is what the npm package runs: Node does not strip types below
 * node_modules. It also builds the Studio there. A checkout needs neither: it runs its sources, and set-up builds the
 * Studio.
 *
 * `src/setup` is JavaScript already and stays where it is, in the package too.
 */
import { copyFile, glob, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { run } from '../src/setup/run.mjs'
import { buildStudio, isStudioBuilt, STUDIO_DIRECTORY } from '../src/setup/studio.mjs'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const OUTPUT = join(ROOT, 'dist')
const COMPILER = join(ROOT, 'node_modules/typescript-7/bin/tsc')
/** What is read at run time beside the code. */
const ASSETS = ['storage/migrations/*.sql']

if (!(await isStudioBuilt())) await buildStudio()
await clean()
await run(process.execPath, [COMPILER, '-p', join(ROOT, 'tsconfig.build.json')])
for await (const file of glob(ASSETS, { cwd: join(ROOT, 'src') })) {
  await mkdir(dirname(join(OUTPUT, file)), { recursive: true })
  await copyFile(join(ROOT, 'src', file), join(OUTPUT, file))
}
const compiled = new Set<string>()
for await (const file of glob('**/*.js', { cwd: OUTPUT })) if (!file.startsWith('studio/')) compiled.add(file)
for (const file of compiled) await point(file, compiled)
console.log(`${compiled.size} files are compiled in ${relative(ROOT, OUTPUT)}/, beside the Studio`)

/** Files of sources that are gone must not be packed. */
async function clean(): Promise<void> {
  for (const name of await readdir(OUTPUT)) {
    if (name !== basename(STUDIO_DIRECTORY)) await rm(join(OUTPUT, name), { recursive: true })
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
