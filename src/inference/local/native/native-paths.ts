import { type Backend, findBackend, GPU_BACKENDS, wantedBackend } from '../../../setup/backends.mjs'
import {
  CPU,
  findLibrary,
  locatePrebuilt,
  MTMD,
  type PrebuiltLibraries,
  SetupError,
} from '../../../setup/native-library.mjs'

/** Files of the native libraries that the engine loads. */
export interface NativePaths extends PrebuiltLibraries {
  readonly mtmd: string
  /** Kernels compiled for this processor; null where the prebuilt ones are used. */
  readonly kernels: string | null
  readonly gpu: GpuPaths
}

/** GPU backends that can be loaded beside the CPU's. */
export interface GpuPaths {
  readonly wanted: Backend
  /** The preferred one first. */
  readonly libraries: readonly { readonly name: string; readonly path: string }[]
  /** What to do about the wanted backend where it is not installed, in one sentence; else null. */
  readonly missing: string | null
}

/**
 * @param backend as the settings have it; by default the environment's.
 * @throws Error that says what to install when a library is missing.
 */
export function locateNativeLibraries(backend: Backend = wantedBackend()): NativePaths {
  const prebuilt = locatePrebuilt()
  const mtmd = findLibrary(MTMD, prebuilt.platform)
  if (mtmd === null) {
    throw new SetupError('The image encoder library (libmtmd) has not been built on this machine: run "npm run setup".')
  }
  const gpu = locateBackends(backend, prebuilt.platform)
  return { ...prebuilt, mtmd, kernels: findLibrary(CPU, prebuilt.platform), gpu }
}

function locateBackends(wanted: Backend, platform: string): GpuPaths {
  const offered = GPU_BACKENDS[platform] ?? []
  const libraries = offered
    .filter(({ name }) => wanted === 'auto' || wanted === name)
    .flatMap((backend) => {
      const path = findBackend(backend, platform)
      return path === null ? [] : [{ name: backend.name, path }]
    })
  if (libraries.length > 0 || wanted === 'auto' || wanted === 'cpu') return { wanted, libraries, missing: null }
  const missing = offered.some(({ name }) => name === wanted)
    ? `The ${wanted} backend is not installed: run "LOOKOUT_BACKEND=${wanted} npm run setup".`
    : `There is no ${wanted} backend for ${platform}.`
  return { wanted, libraries, missing }
}
