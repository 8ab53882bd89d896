// Builds the pages that the server serves, each from its own folder into one below `dist/`.
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { chmod, copyFile, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { run } from './run.mjs'

/** @import { Page } from './types.ts' */

const PROJECT_ROOT = fileURLToPath(new URL('../../', import.meta.url))
/** The page at /studio. */
export const STUDIO = {
  source: 'studio',
  // Where the server looks for the built page.
  directory: join(PROJECT_ROOT, 'dist/studio'),
  // The sources of the page besides its own: it shares these rooms with the server.
  shared: ['src/client', 'src/drawing', 'src/exports', 'src/grounding'],
  // Sample media, which the documentation also shows.
  files: ['shapes.png', 'shapes.webm', 'words.mp3', 'coffee.jpg'].map((name) => [
    `docs/pictures/${name}`,
    `samples/${name}`,
  ]),
}
/** The page at /docs: Swagger UI, which shows `openapi.json`. Below it, the documentation as plain pages. */
export const REFERENCE = {
  source: 'reference',
  directory: join(PROJECT_ROOT, 'dist/reference'),
  shared: ['docs', 'README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'models/lookout-nano/README.md'],
  files: ['LICENSE', 'NOTICE', 'swagger-ui-bundle.js.LICENSE.txt'].map((name) => [
    `node_modules/swagger-ui-dist/${name}`,
    `licences/${name.replace(/[.]txt$/, '')}.txt`,
  ]),
}
export const PAGES = [STUDIO, REFERENCE]

/** The stamp identifies the sources of the build. */
const STAMP = 'built-from'
const COMPRESSED = /[.](html|js|css|svg|json|txt)$/

/**
 * Whether the page has been built from the current sources. The npm package has the page without its sources.
 * @param {Page} page
 */
export async function isPageBuilt(page) {
  if (!existsSync(join(PROJECT_ROOT, page.source))) return existsSync(page.directory)
  const stamp = await readFile(join(page.directory, STAMP), 'utf8').catch(() => null)
  return stamp !== null && stamp === (await fingerprint(page))
}

/**
 * Builds the page; the folder appears completely or not at all.
 * @param {Page} page
 * @throws Error with the bundler's output.
 */
export async function buildPage(page) {
  const { source, files } = page
  const vite = join(dirname(createRequire(import.meta.url).resolve('vite/package.json')), 'bin/vite.js')
  const stamp = await fingerprint(page)
  const output = await mkdtemp(join(PROJECT_ROOT, `.${source}-`))
  try {
    await run(ownNode(), [vite, 'build', source, '--outDir', output, '--emptyOutDir', '--logLevel', 'warn'], {
      cwd: PROJECT_ROOT,
      env: { ...process.env, NODE_ENV: 'production' },
    })
    for (const [from, to] of files) {
      await mkdir(dirname(join(output, to)), { recursive: true })
      await copyFile(join(PROJECT_ROOT, from), join(output, to))
    }
    await Promise.all((await filesBelow(output)).filter((file) => COMPRESSED.test(file)).map(compress))
    await writeFile(join(output, STAMP), stamp)
    // Only the owner can access a folder from mkdtemp, but the server may run as another user.
    await chmod(output, 0o755)
    await publish(output, page.directory)
  } finally {
    await rm(output, { recursive: true, force: true })
  }
}

/** The Node from the npm package, if installed: the bundler needs a newer one than set-up itself. */
function ownNode() {
  const packaged = join(PROJECT_ROOT, `node_modules/node-${process.platform}-${process.arch}/bin/node`)
  return existsSync(packaged) ? packaged : process.execPath
}

/** A running server reads the folder only at its start. */
async function publish(output, directory) {
  const old = `${output}-old`
  await rename(directory, old).catch(async (error) => {
    if (error.code !== 'ENOENT') throw error
    await mkdir(dirname(directory), { recursive: true })
  })
  await rename(output, directory)
  await rm(old, { recursive: true, force: true })
}

async function compress(file) {
  const bytes = await readFile(file)
  const quality = { params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length } }
  await writeFile(`${file}.br`, await promisify(brotliCompress)(bytes, quality))
  await writeFile(`${file}.gz`, await promisify(gzip)(bytes, { level: 9 }))
}

async function fingerprint({ source, shared, files: copied }) {
  const hash = createHash('sha256')
  const sources = [source, ...shared].map((path) => join(PROJECT_ROOT, path))
  const files = (await Promise.all(sources.map(async (path) => ((await isFile(path)) ? path : filesBelow(path)))))
    .flat()
    .filter((file) => !file.endsWith('.test.ts'))
  for (const file of [
    ...['package-lock.json', ...copied.map(([from]) => from)].map((name) => join(PROJECT_ROOT, name)),
    ...files,
  ]) {
    hash.update(`${relative(PROJECT_ROOT, file)}\0`).update(await readFile(file))
  }
  return hash.digest('hex')
}

async function isFile(path) {
  return (await stat(path)).isFile()
}

async function filesBelow(directory) {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name))
    .sort()
}
