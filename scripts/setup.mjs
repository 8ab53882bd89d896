// `npm run setup`, and the last step of `npm ci`: compiles what the local engine needs beyond npm packages, once per
// machine, fetches the GPU backend that LOOKOUT_BACKEND names, and builds the pages for browsers. At installation, nothing is compiled
// that the platform package has. It must run on Node 18 and later, because it may run on the machine's own Node.
import { copyFile, mkdir, mkdtemp, readdir, rename, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  fetchBackend,
  findBackend,
  findOwn,
  GPU_BACKENDS,
  suggestedBackend,
  wantedBackend,
} from '../src/setup/backends.mjs'
import { compileLibrary, findCompiler } from '../src/setup/compile.mjs'
import { addCuda, findPackagedCuda } from '../src/setup/cuda.mjs'
import { checkKernels } from '../src/setup/kernel-check.mjs'
import {
  CPU,
  findCompiled,
  findLibrary,
  findPackaged,
  findRefusal,
  LLAMA_RELEASE,
  libraryDirectory,
  libraryFile,
  MTMD,
  platformPackage,
  SetupError,
  wantsOwnKernels,
  writeManifest,
} from '../src/setup/native-library.mjs'
import { buildPage, isPageBuilt, PAGES } from '../src/setup/pages.mjs'
import { locatePrebuilt } from '../src/setup/prebuilt.mjs'
import { checkNode, checkPlatform } from '../src/setup/requirements.mjs'
import { fetchSource } from '../src/setup/source.mjs'

const PROJECT_ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
/** Prefix of unfinished builds in the cache. One that is older than a day was left by a crash. */
const WORKSPACE_PREFIX = 'building-'
const WORKSPACE_LIFETIME_MS = 24 * 3600 * 1000
const PROGRESS_INTERVAL_MS = 3000

const log = (message) => console.log(`lookout setup: ${message}`)

async function main() {
  checkPlatform()
  // On Linux the server's Node is a package. Elsewhere it is this one, and .npmrc keeps npm from warning about its age.
  if (process.platform !== 'linux') checkNode()
  const started = Date.now()
  const seconds = () => `${((Date.now() - started) / 1000).toFixed(1)} s`
  const backend = wantedBackend()
  const prebuilt = locatePrebuilt()
  await buildMissing(prebuilt, seconds)
  await addBackend(backend, prebuilt, seconds)
  for (const page of PAGES) await addPage(page, seconds)
}

async function buildMissing(prebuilt, seconds) {
  const { platform } = prebuilt
  const wanted = wantsOwnKernels(platform) ? [MTMD, CPU] : [MTMD]
  const isInstallation = process.env.npm_lifecycle_event === 'postinstall'
  if (isInstallation) await checkPackaged(prebuilt)
  // A library that failed its check would fail it again. After a change of compiler, "npm run setup" tries again.
  const refusal = isInstallation ? findRefusal(CPU, platform) : null
  const find = isInstallation ? findLibrary : findCompiled
  const missing = wanted.filter((recipe) => {
    return find(recipe, platform) === null && (recipe !== CPU || refusal === null)
  })
  if (refusal !== null && findLibrary(CPU, platform) === null) sayRefused(CPU, refusal)
  if (missing.length === 0) {
    const isPackaged = wanted.some((recipe) => findCompiled(recipe, platform) === null)
    const place = isPackaged ? platformPackage(platform) : nativeFolder(prebuilt)
    return log(`the libraries of llama.cpp ${LLAMA_RELEASE} are already built (${place})`)
  }

  try {
    await buildAll(missing, prebuilt, seconds)
    log(`llama.cpp ${LLAMA_RELEASE} is ready after ${seconds()}`)
  } catch (error) {
    sayMissing(
      wanted.filter((recipe) => find(recipe, platform) === null),
      platform,
    )
    log(error instanceof SetupError ? error.message : error.stack)
    log('"npx lookout setup" tries again')
  }
}

/** Without a library that cannot be compiled, the rest of Lookout works: set-up does not fail. */
function sayMissing(recipes, platform) {
  for (const recipe of recipes) {
    const packaged = findPackaged(recipe, platform)
    if (packaged !== null) log(`cannot compile ${recipe.what}; using ${platformPackage(platform)}`)
    else if (recipe === CPU) log(`cannot compile ${CPU.what}; using the prebuilt ones, which are slower`)
    else log(`cannot compile ${recipe.what}: models answer about text, but not about images, video or audio`)
  }
}

/** Has the platform package's kernels checked, too: notes in the cache which of them this machine must not use. */
async function checkPackaged(prebuilt) {
  const { platform } = prebuilt
  if (findCompiled(CPU, platform) !== null) return
  for (let packaged = findPackaged(CPU, platform); packaged !== null; packaged = findPackaged(CPU, platform)) {
    const refusal = await checkKernels(packaged.path, prebuilt)
    if (refusal === null) return
    sayRefused(packaged.recipe, refusal)
    await withWorkspace(prebuilt, async (workspace) => {
      const product = join(workspace, 'refused')
      await mkdir(product)
      await copyFile(packaged.path, join(product, basename(packaged.path)))
      writeManifest(product, packaged.recipe, platform, refusal)
      await publish(product, packaged.recipe, platform)
    })
  }
}

/** A faulty GPU backend does not fail the set-up: models then run on the CPU. */
async function addBackend(name, prebuilt, seconds) {
  const { platform } = prebuilt
  if (name === 'auto') {
    return suggestBackend(prebuilt, seconds).catch((error) => log(`cannot add a GPU backend. ${error.message}`))
  }
  if (name === 'cpu' || (name === 'metal' && platform === 'darwin-arm64')) return
  const backend = (GPU_BACKENDS[platform] ?? []).find((one) => one.name === name)
  if (backend === undefined) return log(`there is no ${name} backend for ${platform}; models run on the CPU`)
  try {
    await addLibrary(backend, prebuilt, seconds, true)
  } catch (error) {
    log(`cannot add the ${name} backend; models run on the CPU. ${error.message}`)
  }
}

/** Without being asked, set-up uses what is installed: a backend's package. It fetches nothing. */
async function suggestBackend(prebuilt, seconds) {
  const { platform } = prebuilt
  const offered = GPU_BACKENDS[platform] ?? []
  const suggested = suggestedBackend(platform)
  const backend = offered.find(({ name }) => name === suggested)
  if (backend === undefined) return
  const isOffered = backend.name === 'cuda' && findPackagedCuda(backend, platform) !== null
  if (isOffered && findOwn(backend, platform) === null) await addLibrary(backend, prebuilt, seconds, false)
  if (offered.some((one) => findBackend(one, platform) !== null)) return
  log(`this machine seems to have a GPU; to use it: LOOKOUT_BACKEND=${suggested} npx lookout setup`)
}

async function addLibrary(backend, prebuilt, seconds, mayFetch) {
  await withWorkspace(prebuilt, async (workspace) => {
    const to = { prebuilt, platform: prebuilt.platform, workspace, projectRoot: PROJECT_ROOT, mayFetch, log, seconds }
    if (backend.name === 'cuda')
      await addCuda(backend, { ...to, showProgress: (recipe) => showProgress(recipe, seconds) })
    else await addFetched(backend, to)
  })
}

async function addFetched(backend, { prebuilt, platform, seconds, ...to }) {
  const { name } = backend
  const found = findBackend(backend, platform)
  if (found === null) log(`fetching ${backend.package}`)
  const path = found ?? (await fetchBackend(backend, { ...to, platform }))
  // An image for machines with a GPU may be built on one without.
  if (suggestedBackend(platform) === null) return log(`the ${name} backend is here, and not tried: there is no GPU`)
  const refusal = await checkKernels(path, prebuilt)
  if (refusal === null) return log(`the ${name} backend is ready after ${seconds()}`)
  log(`the ${name} backend does not work on this machine: ${refusal}; models run on the CPU`)
}

/** Without its pages the server still answers: set-up does not fail. */
async function addPage(page, seconds) {
  try {
    if (await isPageBuilt(page)) return
    await buildPage(page)
    log(`the page in ${page.source}/ is built after ${seconds()}`)
  } catch (error) {
    log(`cannot build the page in ${page.source}/; the server starts without it. ${error.message}`)
  }
}

async function buildAll(recipes, prebuilt, seconds) {
  const compiler = await findCompiler()
  await withWorkspace(prebuilt, async (workspace) => {
    log(`fetching the source of llama.cpp ${LLAMA_RELEASE}`)
    const source = await fetchSource(workspace, PROJECT_ROOT, [...new Set(recipes.flatMap(({ folders }) => folders))])
    for (const recipe of recipes) await build(recipe, { compiler, source, workspace, prebuilt, seconds })
  })
}

/** Runs `work` with a folder of its own in the cache, which is removed afterwards, also when set-up is interrupted. */
async function withWorkspace(prebuilt, work) {
  const workspace = await createWorkspace(nativeFolder(prebuilt))
  const discard = () => rm(workspace, { recursive: true, force: true })
  const leave = () => discard().finally(() => process.exit(1))
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP']
  for (const signal of signals) process.once(signal, leave)
  try {
    await work(workspace)
  } finally {
    for (const signal of signals) process.off(signal, leave)
    await discard()
  }
}

function sayRefused({ what, level }, refusal) {
  if (level !== undefined) return log(`not using the kernels for ${level}: ${refusal}`)
  log(`not using ${what}: ${refusal}; the prebuilt ones are slower. "npx lookout setup" tries again.`)
}

/** Compiles one library and publishes it to the cache. */
async function build(recipe, { compiler, source, workspace, prebuilt, seconds }) {
  const product = join(workspace, `product-${recipe.name}`)
  await mkdir(product)
  const output = join(product, libraryFile(recipe))
  await compileLibrary(recipe, {
    compiler,
    source,
    objects: join(workspace, `objects-${recipe.name}`),
    output,
    prebuilt,
    progress: showProgress(recipe, seconds),
  })
  const refusal = recipe === CPU ? await checkKernels(output, prebuilt) : null
  if (refusal !== null) sayRefused(CPU, refusal)
  writeManifest(product, recipe, prebuilt.platform, refusal)
  await publish(product, recipe, prebuilt.platform)
}

/** Logs how far a compilation is, now and then. */
function showProgress({ what }, seconds) {
  let shown = 0
  return (done, all) => {
    if (done < all && Date.now() - shown < PROGRESS_INTERVAL_MS) return
    shown = Date.now()
    log(`compiling ${what}: ${done} of ${all} files, ${seconds()}`)
  }
}

function nativeFolder({ platform }) {
  return dirname(libraryDirectory(MTMD, platform))
}

/** Creates a folder for this build, on the cache's file system so that the result can be renamed into the cache. */
async function createWorkspace(parent) {
  try {
    await mkdir(parent, { recursive: true })
    for (const name of await readdir(parent)) {
      if (!name.startsWith(WORKSPACE_PREFIX)) continue
      const path = join(parent, name)
      const age = Date.now() - (await stat(path).then((s) => s.mtimeMs, Date.now))
      if (age > WORKSPACE_LIFETIME_MS) await rm(path, { recursive: true, force: true })
    }
    return await mkdtemp(join(parent, WORKSPACE_PREFIX))
  } catch (error) {
    throw new SetupError(
      `Cannot write to the cache folder ${parent} (${error.message}). Set LOOKOUT_CACHE_DIR to a writable folder.`,
    )
  }
}

/**
 * Renames the product into the cache in one step. Of two concurrent installs, the first wins and the second uses it.
 */
async function publish(product, recipe, platform) {
  const target = libraryDirectory(recipe, platform)
  for (let attempt = 0; attempt < 3; attempt++) {
    try {
      return await rename(product, target)
    } catch (error) {
      if (!['ENOTEMPTY', 'EEXIST', 'EPERM', 'ENOTDIR'].includes(error.code)) throw error
      if (findCompiled(recipe, platform) !== null) return
      // The existing folder is damaged: move it away, also in one step.
      const damaged = `${product}-damaged-${attempt}`
      await rename(target, damaged).catch(() => {})
    }
  }
  throw new SetupError(`The folder ${target} is damaged and cannot be replaced. Delete it and try again.`)
}

main().catch((error) => {
  const message = error instanceof SetupError ? error.message : (error.stack ?? String(error))
  console.error(`\nlookout setup failed: ${message}\n`)
  process.exitCode = 1
})
