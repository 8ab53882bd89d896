// Adds a CUDA backend: Lookout's package's, one that the machine's own CUDA toolkit compiles, or llama.cpp's. Plain
// JavaScript: set-up may run on an older Node.
import { existsSync, readFileSync, realpathSync } from 'node:fs'
import { copyFile, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import {
  backendDirectory,
  CUDA,
  compiledDirectory,
  fetchBackend,
  findIn,
  findOwn,
  PACKAGED_CUDA,
  packagedDirectory,
  publish,
  suggestedBackend,
} from './backends.mjs'
import { compileLibrary } from './compile.mjs'
import { capabilityText, chooseCuda, findGpus } from './cuda-choice.mjs'
import { addRuntime, lacksRuntime } from './cuda-runtime.mjs'
import { checkKernels } from './kernel-check.mjs'
import { buildName, MANIFEST_FILE, packageDirectory, platformPackage, sha256 } from './native-library.mjs'
import { isInstalled, run } from './run.mjs'
import { fetchSource } from './source.mjs'

/** @import { CudaPackage, GpuBackend, PrebuiltLibraries, Recipe } from './types.ts' */

/**
 * Path of CUDA's compiler; null without one.
 * @returns {Promise<string | null>}
 */
export async function findNvcc({ CUDACXX, CUDA_PATH } = process.env) {
  for (const nvcc of [CUDACXX, CUDA_PATH && join(CUDA_PATH, 'bin', 'nvcc'), 'nvcc', '/usr/local/cuda/bin/nvcc']) {
    if (nvcc && (await isInstalled(nvcc))) return pathOf(nvcc)
  }
  return null
}

/** Where the shell would find a program. */
async function pathOf(program) {
  return program.includes('/') ? program : (await run('sh', ['-c', 'command -v "$0"', program])).trim()
}

/** Lookout's package of the CUDA backend for a platform. @param {string} platform */
export function cudaPackage(platform) {
  return platformPackage(`${platform}-cuda`)
}

/**
 * The library of Lookout's package; null where the package is not installed.
 * @param {Pick<GpuBackend, 'file'>} backend
 * @param {string} platform
 * @returns {CudaPackage & { path: string } | null}
 */
export function findPackagedCuda({ file }, platform) {
  const root = packageDirectory(`${platform}-cuda`)
  if (root === null) return null
  const directory = join(root, 'native', buildName(PACKAGED_CUDA, platform))
  const found = { name: cudaPackage(platform), path: join(directory, basename(file)), architectures: [], problem: null }
  let manifest
  try {
    manifest = JSON.parse(readFileSync(join(directory, MANIFEST_FILE), 'utf8'))
  } catch {
    return { ...found, problem: 'it was made from other sources than this version' }
  }
  const isWhole = findIn(directory, { file }) !== null && sha256(found.path) === manifest.sha256
  return { ...found, architectures: manifest.architectures, problem: isWhole ? null : 'it is damaged' }
}

/**
 * Adds the CUDA backend by the first method whose backend computes correctly, and logs which one, or why none does. On a
 * machine without a GPU, the backend is for another machine, and is not checked.
 * @param {GpuBackend} backend
 * @param {{ prebuilt: PrebuiltLibraries, workspace: string, projectRoot: string, mayFetch: boolean,
 *   log: (message: string) => void, seconds: () => string,
 *   showProgress: (recipe: Recipe) => (done: number, all: number) => void }} to `workspace` is an empty folder of the
 * cache. With `mayFetch` false, only the package is considered. `seconds` says how long set-up has run.
 */
export async function addCuda(backend, to) {
  const { prebuilt, log, seconds, mayFetch } = to
  const { platform } = prebuilt
  const gpus = await findGpus()
  const hasGpu = gpus.length > 0 || suggestedBackend(platform) !== null
  const facts = {
    cached: findOwn(backend, platform),
    packaged: findPackagedCuda(backend, platform),
    gpus,
    nvcc: hasGpu && mayFetch ? await findNvcc() : null,
  }
  const { ways, reason } = chooseCuda(facts)
  if (reason !== null) log(reason)
  for (const way of mayFetch ? ways : ways.filter((other) => other === 'packaged')) {
    const { what, add } = WAYS[way](facts)
    const refusal = await add(backend, { ...to, ...facts, hasGpu }).catch((error) => error.message)
    if (refusal !== null) {
      log(`not using ${what}: ${refusal}`)
      if (way === 'cached' && existsSync(facts.cached)) {
        return log(`it is kept, for its cause may pass. ${ADVICE} To have another one made, delete that folder first.`)
      }
      continue
    }
    const tried = hasGpu ? `on ${gpuText(gpus)}` : 'not tried: there is no GPU'
    return log(`the cuda backend is ready after ${seconds()}: ${what}, ${tried}`)
  }
  if (mayFetch) log('models run on the CPU. Update the driver, or install the CUDA toolkit (nvcc), and try again.')
}

const ADVICE = 'Check that the driver answers ("nvidia-smi") and that the GPU is free, and try again.'
/** Refusals that are due to the library's file, to its results, or to its target architectures. */
const NO_LIBRARY = /file too short|invalid ELF header|ELF file/
const WRONG = / is wrong$/
const OTHER_GPU = /no kernel image is available|^ggml was not compiled with/

const WAYS = {
  cached: ({ cached }) => ({ what: `the one in ${dirname(cached)}`, add: checkCached }),
  packaged: ({ packaged }) => ({
    what: `${packaged.name} (machine code for ${packaged.architectures.map(capabilityText).join(', ')})`,
    add: copyPackaged,
  }),
  compiled: ({ nvcc }) => ({ what: `the one that ${nvcc} compiles`, add: compile }),
  fetched: () => ({ what: "llama.cpp's, without Lookout's kernels", add: fetchTheirs }),
}

function gpuText(gpus) {
  const [gpu, ...others] = gpus
  if (gpu === undefined) return 'the GPU'
  const more = others.length === 0 ? '' : ` and ${others.length} more`
  return `${gpu.name}${more} (compute capability ${capabilityText(gpu.capability)}, driver ${gpu.driver})`
}

/**
 * Removes a library that is useless because it is damaged, computes nonsense or was built for another GPU: the engine
 * would prefer it. Any other cause may be temporary, such as a missing driver or a busy GPU, and compiling takes half
 * an hour.
 */
async function checkCached(_backend, { cached, ...to }) {
  const refusal = await check(cached, to)
  if (refusal === null) return null
  const isDamaged = !isWhole(cached) || NO_LIBRARY.test(refusal)
  if (isDamaged || WRONG.test(refusal) || OTHER_GPU.test(refusal)) {
    await rm(dirname(cached), { recursive: true, force: true })
  }
  return isDamaged ? `it is damaged (${refusal})` : refusal
}

/** Whether a library is unchanged since it was put into the cache. A manifest of an earlier version has no hash. */
function isWhole(library) {
  const expected = JSON.parse(readFileSync(join(dirname(library), MANIFEST_FILE), 'utf8')).sha256
  return expected === undefined || expected === sha256(library)
}

async function copyPackaged(backend, { packaged, ...to }) {
  const product = join(to.workspace, 'packaged')
  await mkdir(product)
  const copy = join(product, basename(backend.file))
  await copyFile(packaged.path, copy)
  const refusal = await check(copy, to)
  if (refusal !== null) return refusal
  const about = { package: packaged.name, architectures: packaged.architectures }
  await publish(backend, product, packagedDirectory(backend, to.prebuilt.platform), about)
  return null
}

/** Compiles the backend for this machine's GPUs. An interrupted compilation is resumed. */
async function compile(backend, { nvcc, gpus, ...to }) {
  const { log, workspace, projectRoot, prebuilt } = to
  log(`compiling the CUDA backend with ${nvcc}, in about 35 minutes divided by the number of cores`)
  const target = compiledDirectory(backend, prebuilt.platform)
  const objects = join(dirname(target), 'objects-cuda')
  const product = join(workspace, 'compiled')
  await mkdir(product)
  const output = join(product, basename(backend.file))
  // The toolkit's libraries may be outside the loader's search path.
  const libraries = join(dirname(dirname(realpathSync(nvcc))), 'lib64')
  await compileLibrary(CUDA, {
    compiler: [nvcc],
    source: await fetchSource(await mkdtemp(join(workspace, 'source-')), projectRoot, CUDA.folders),
    objects,
    output,
    prebuilt,
    machine: gpus.map(({ capability }) => capability).join(),
    linkFlags: ['-Xlinker', `-rpath=${libraries}:$ORIGIN`],
    progress: to.showProgress(CUDA),
  })
  const refusal = await check(output, to)
  if (refusal !== null) return refusal
  await publish(backend, product, target)
  await rm(objects, { recursive: true, force: true })
  return null
}

async function fetchTheirs(backend, to) {
  const { platform } = to.prebuilt
  const directory = backendDirectory(backend, platform)
  const cached = findIn(directory, backend)
  if (cached === null) to.log(`fetching ${backend.package}`)
  return check(cached ?? (await fetchBackend(backend, { ...to, platform })), to)
}

/** The problem with a library; null if there is none. Adds CUDA's runtime if only that is missing. */
async function check(library, to) {
  const { prebuilt, hasGpu } = to
  let refusal = await checkKernels(library, prebuilt)
  if (lacksRuntime(refusal)) {
    await addRuntime(library, to)
    refusal = await checkKernels(library, prebuilt)
  }
  return hasGpu || lacksRuntime(refusal) ? refusal : null
}
