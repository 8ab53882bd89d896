import { findBackend, GPU_BACKENDS, wantedBackend } from '../../../setup/backends.mjs'
import { CPU, findCompiled, findLibrary, findPackaged, MTMD, platformPackage } from '../../../setup/native-library.mjs'
import { locatePrebuilt } from '../../../setup/prebuilt.mjs'
import type { Backend, PrebuiltLibraries } from '../../../setup/types.ts'

/** Files of the native libraries that the engine loads. */
export interface NativePaths extends PrebuiltLibraries {
  /** The encoders of images and audio; null where it is missing. */
  readonly mtmd: string | null
  /** Our kernels; null where llama.cpp's prebuilt ones are used. */
  readonly kernels: string | null
  /** Processor level of the compiled kernels; null for this machine's. */
  readonly kernelLevel: string | null
  readonly gpu: GpuPaths
}

/** GPU backends that can be loaded beside the CPU's. */
export interface GpuPaths {
  readonly wanted: Backend
  /** The preferred one first. */
  readonly libraries: readonly { readonly name: string; readonly path: string }[]
  /** How to install the wanted backend if it is missing, in one sentence; else null. */
  readonly missing: string | null
}

/**
 * @param backend from the settings; by default, the environment's.
 * @throws Error that says what to install if llama.cpp is missing.
 */
export function locateNativeLibraries(backend: Backend = wantedBackend()): NativePaths {
  const prebuilt = locatePrebuilt()
  const { platform } = prebuilt
  const compiled = findCompiled(CPU, platform)
  const packaged = compiled === null ? findPackaged(CPU, platform) : null
  return {
    ...prebuilt,
    mtmd: findLibrary(MTMD, platform),
    kernels: compiled ?? packaged?.path ?? null,
    kernelLevel: packaged?.recipe.level ?? null,
    gpu: locateBackends(backend, platform),
  }
}

/** What this machine lacks to encode images and audio, and how to fix it, in two sentences; null if nothing. */
export function encoderProblem(): string | null {
  const { platform } = locatePrebuilt()
  if (findLibrary(MTMD, platform) !== null) return null
  return (
    'The image encoder library (libmtmd) is not installed: models answer about text, but not about images, video or ' +
    `audio. Install ${platformPackage(platform)} of the same version, or a C++ compiler and run "npx lookout setup".`
  )
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
    ? `The ${wanted} backend is not installed: run "LOOKOUT_BACKEND=${wanted} npx lookout setup".`
    : `There is no ${wanted} backend for ${platform}.`
  return { wanted, libraries, missing }
}
