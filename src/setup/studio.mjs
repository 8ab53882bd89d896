// Builds the Studio, the web page that the server serves at /studio, from `studio/` into `dist/studio`.
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { chmod, copyFile, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { basename, dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { run } from './run.mjs'

const PROJECT_ROOT = fileURLToPath(new URL('../../', import.meta.url))
/** Where the server looks for the built page. */
export const STUDIO_DIRECTORY = join(PROJECT_ROOT, 'dist/studio')
/** The stamp names what the page was built from. */
const STAMP = 'built-from.txt'
/** What the page is made of besides `studio/`: it shares these rooms with the server. */
const SHARED = ['src/client', 'src/drawing', 'src/exports', 'src/grounding']
/** Media to try, which the documentation shows too. */
const SAMPLES = ['shapes.png', 'shapes.webm', 'words.mp3'].map((name) => join(PROJECT_ROOT, 'docs/pictures', name))
const COMPRESSED = /[.](html|js|css|svg|json)$/

/** Whether the built page is there and belongs to the present sources. The npm package has the page without its sources. */
export async function isStudioBuilt() {
  if (!existsSync(join(PROJECT_ROOT, 'studio'))) return existsSync(STUDIO_DIRECTORY)
  const stamp = await readFile(join(STUDIO_DIRECTORY, STAMP), 'utf8').catch(() => null)
  return stamp !== null && stamp === (await fingerprint())
}

/**
 * Builds the page; the folder appears as a whole or not at all.
 * @throws Error with the bundler's output.
 */
export async function buildStudio() {
  const vite = join(dirname(createRequire(import.meta.url).resolve('vite/package.json')), 'bin/vite.js')
  const stamp = await fingerprint()
  const output = await mkdtemp(join(PROJECT_ROOT, '.studio-'))
  try {
    await run(ownNode(), [vite, 'build', 'studio', '--outDir', output, '--emptyOutDir', '--logLevel', 'warn'], {
      cwd: PROJECT_ROOT,
      env: { ...process.env, NODE_ENV: 'production' },
    })
    await mkdir(join(output, 'samples'))
    for (const file of SAMPLES) await copyFile(file, join(output, 'samples', basename(file)))
    for (const file of await filesBelow(output)) if (COMPRESSED.test(file)) await compress(file)
    await writeFile(join(output, STAMP), stamp)
    // A folder of mkdtemp is its owner's alone; the server may run as another user.
    await chmod(output, 0o755)
    await publish(output)
  } finally {
    await rm(output, { recursive: true, force: true })
  }
}

/** The Node that came as a package, where there is one: the bundler needs a newer one than set-up itself. */
function ownNode() {
  const packaged = join(PROJECT_ROOT, `node_modules/node-${process.platform}-${process.arch}/bin/node`)
  return existsSync(packaged) ? packaged : process.execPath
}

/** A server that is running reads the folder only at its start. */
async function publish(output) {
  const old = `${output}-old`
  await rename(STUDIO_DIRECTORY, old).catch(async (error) => {
    if (error.code !== 'ENOENT') throw error
    await mkdir(dirname(STUDIO_DIRECTORY), { recursive: true })
  })
  await rename(output, STUDIO_DIRECTORY)
  await rm(old, { recursive: true, force: true })
}

async function compress(file) {
  const bytes = await readFile(file)
  const quality = { params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length } }
  await writeFile(`${file}.br`, await promisify(brotliCompress)(bytes, quality))
  await writeFile(`${file}.gz`, await promisify(gzip)(bytes, { level: 9 }))
}

async function fingerprint() {
  const hash = createHash('sha256')
  const sources = [join(PROJECT_ROOT, 'studio'), ...SHARED.map((room) => join(PROJECT_ROOT, room))]
  const files = (await Promise.all(sources.map(filesBelow))).flat().filter((file) => !file.endsWith('.test.ts'))
  for (const file of [join(PROJECT_ROOT, 'package-lock.json'), ...SAMPLES, ...files]) {
    hash.update(`${relative(PROJECT_ROOT, file)}\0`).update(await readFile(file))
  }
  return hash.digest('hex')
}

async function filesBelow(directory) {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name))
    .sort()
}
