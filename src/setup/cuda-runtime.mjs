// CUDA's runtime, which the CUDA backend is linked with: found by the loader, or fetched from NVIDIA's wheels. Plain
// JavaScript: set-up may run on an older Node.
import { existsSync } from 'node:fs'
import { mkdir, rename, rm, symlink } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { cacheDirectory, SetupError } from './native-library.mjs'
import { commandFor, fetchWheel, unpackWheel } from './wheels.mjs'

/** @import { Wheel, WheelOptions } from './types.ts' */
/** @typedef {Omit<WheelOptions, 'progress'> & { log: (message: string) => void }} Means */

const PLATFORM = 'py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64'

/**
 * Wheels of CUDA 13.0 for Linux x64. A driver for CUDA 13 runs code compiled with them, without a forward-compatibility
 * package.
 */
const [RUNTIME, CUBLAS] = [
  {
    name: 'nvidia-cuda-runtime',
    version: '13.0.96',
    file: `nvidia_cuda_runtime-13.0.96-${PLATFORM}.whl`,
    sha256: '7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548',
  },
  {
    name: 'nvidia-cublas',
    version: '13.0.2.14',
    file: 'nvidia_cublas-13.0.2.14-py3-none-manylinux_2_27_x86_64.whl',
    sha256: '0cf238ffdbe46c00cb9aa98e7bca745c223a5ca5a53e686ac8b3e5a08fe80d6c',
  },
]

/**
 * The compiler and headers for the backend, for machines without a CUDA toolkit.
 * @type {readonly Wheel[]}
 */
export const TOOLKIT_WHEELS = [
  {
    name: 'nvidia-cuda-nvcc',
    version: '13.0.88',
    file: `nvidia_cuda_nvcc-13.0.88-${PLATFORM}.whl`,
    sha256: '56fe502eb77625a12f25172caa3cdddb4e4c8ba2c8c17dba44b164761b380f03',
  },
  {
    name: 'nvidia-cuda-crt',
    version: '13.0.88',
    file: `nvidia_cuda_crt-13.0.88-${PLATFORM}.whl`,
    sha256: '2c8043c7c9e02492716426e9919fc78d2c5b3b2a7a768a88e952676b08aa55a4',
  },
  {
    name: 'nvidia-nvvm',
    version: '13.0.88',
    file: 'nvidia_nvvm-13.0.88-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl',
    sha256: 'c5f41ffeb6466944a026dfa5317d7d85355c119bbec279205d22f1869d1054e0',
  },
  {
    name: 'nvidia-cuda-cccl',
    version: '13.0.85',
    file: `nvidia_cuda_cccl-13.0.85-${PLATFORM}.whl`,
    sha256: 'e0da7ad981f3a8aff08241b5bfc1af868742a63e2762f53a5171c492ef242649',
  },
  RUNTIME,
  CUBLAS,
]

/** The folder in the wheels that contains everything. */
export const WHEEL_ROOT = 'nvidia/cu13/'
const RUNTIME_WHEELS = [RUNTIME, CUBLAS]
const RUNTIME_FILES = ['libcudart.so.13', 'libcublas.so.13', 'libcublasLt.so.13']
const RUNTIME_FOLDER = 'cuda-runtime-13.0'
const RUNTIME_SIZE = '423 MB, 595 MB unpacked'
const PROGRESS_INTERVAL_MS = 3000

/** Whether a library could not be loaded because CUDA's runtime is missing. @param {string | null} refusal of `checkKernels`. */
export function lacksRuntime(refusal) {
  return refusal !== null && /lib(cudart|cublas|cublasLt)\.so\.13: cannot open/.test(refusal)
}

/**
 * Puts links to CUDA's runtime beside a library, which looks for it there. Fetches it first where the cache has none.
 * @param {string} library in a folder of the cache, or of `workspace`, a folder of the cache itself.
 * @param {Means & { workspace: string, mayFetch: boolean, wheels?: readonly Wheel[] }} to
 * @throws SetupError that says how to get the runtime.
 */
export async function addRuntime(
  library,
  { workspace, mayFetch, log, env = process.env, wheels = RUNTIME_WHEELS, get },
) {
  const directory = dirname(library)
  const native = join(cacheDirectory(env), 'native')
  const runtime = join(native, RUNTIME_FOLDER)
  if (!RUNTIME_FILES.every((file) => existsSync(join(runtime, file)))) {
    if (!mayFetch) {
      throw new SetupError(
        `CUDA 13's runtime (libcudart.so.13, libcublas.so.13) is missing; "LOOKOUT_BACKEND=cuda npx lookout setup" fetches it (${RUNTIME_SIZE})`,
      )
    }
    await fetchRuntime(runtime, { workspace, log, env, wheels, get })
  }
  // The links are relative, so that the cache can be moved. A workspace is one folder deeper than its results.
  if (dirname(directory) !== native) await replaceLink(runtime, join(dirname(directory), RUNTIME_FOLDER))
  for (const file of RUNTIME_FILES) await replaceLink(join('..', RUNTIME_FOLDER, file), join(directory, file))
}

async function replaceLink(target, path) {
  await rm(path, { force: true })
  await symlink(target, path)
}

async function fetchRuntime(runtime, { workspace, log, env, wheels, get }) {
  log(`fetching CUDA 13's runtime, which this machine lacks (${RUNTIME_SIZE})`)
  const product = join(workspace, 'runtime')
  try {
    await fetchWheels(wheels, product, workspace, { log, env, get }, (name) => {
      if (RUNTIME_FILES.includes(basename(name))) return basename(name)
      // NVIDIA's licence terms accompany its libraries.
      return name.endsWith('/License.txt') ? `LICENSE.${name.split('-')[0]}` : null
    })
  } catch (error) {
    throw new SetupError(
      `CUDA 13's runtime is missing. ${error.message} By hand: ${commandFor(RUNTIME_WHEELS, 'FOLDER')}, and LD_LIBRARY_PATH=FOLDER/${WHEEL_ROOT}lib`,
    )
  }
  await rm(runtime, { recursive: true, force: true })
  await rename(product, runtime)
}

/**
 * Fetches wheels and unpacks what `place` says of each into a folder.
 * @param {readonly Wheel[]} wheels
 * @param {string} folder
 * @param {string} workspace
 * @param {Means} means
 * @param {(name: string) => string | null} place
 */
export async function fetchWheels(wheels, folder, workspace, { log, env = process.env, get }, place) {
  await mkdir(folder, { recursive: true })
  for (const wheel of wheels) {
    let shown = Date.now()
    const progress = (done, all) => {
      if (Date.now() - shown < PROGRESS_INTERVAL_MS) return
      shown = Date.now()
      log(`fetching ${wheel.name} ${wheel.version}: ${megabytes(done)} of ${megabytes(all)} MB`)
    }
    const path = await fetchWheel(wheel, workspace, { env, progress, get })
    await unpackWheel(path, folder, place)
    await rm(path)
  }
}

function megabytes(bytes) {
  return Math.round(bytes / 1e6)
}
