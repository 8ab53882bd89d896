import type { Recipe } from './native-library.mjs'

export type Backend = 'auto' | 'cpu' | 'vulkan' | 'cuda' | 'metal'

export interface GpuBackend {
  readonly name: 'cuda' | 'vulkan'
  /** The npm package that contains it. */
  readonly package: string
  /** Of the package's tarball. */
  readonly integrity: string
  /** The library within the tarball. */
  readonly file: string
}

/** By platform; the preferred one first. */
export const GPU_BACKENDS: Readonly<Record<string, readonly GpuBackend[]>>
/** @throws SetupError for an unknown value of LOOKOUT_BACKEND. */
export function wantedBackend(env?: NodeJS.ProcessEnv): Backend
/** How the CUDA backend is compiled for this machine's GPU. */
export const CUDA: Recipe
/** Compute capabilities, times ten, for which the package's CUDA backend has machine code. */
export const CUDA_ARCHITECTURES: readonly number[]
/** The recipe of the CUDA backend for some architectures instead of this machine's GPU. */
export function forArchitectures(recipe: Recipe, architectures: readonly number[]): Recipe
/** Names the package's build, whose manifest lists its architectures. */
export const PACKAGED_CUDA: Recipe
/** Folder of a backend's library in the cache. It may not exist. */
export function backendDirectory(backend: GpuBackend, platform: string, env?: NodeJS.ProcessEnv): string
/** The same of the library that is compiled for this machine's GPU; null where a backend is never compiled. */
export function compiledDirectory(backend: GpuBackend, platform: string, env?: NodeJS.ProcessEnv): string | null
/** The same of the library that set-up has copied from Lookout's package; null where there is none. */
export function packagedDirectory(backend: GpuBackend, platform: string, env?: NodeJS.ProcessEnv): string | null
/** Path of the library in a backend's folder; null when it is missing or cut off. */
export function findIn(directory: string, backend: Pick<GpuBackend, 'file'>): string | null
/** Moves a folder with a backend's library to its place in the cache. @returns the path of the library. */
export function publish(backend: GpuBackend, product: string, target: string, about?: object): Promise<string>
/** Path of a backend's library: the compiled, the packaged or the fetched one. Null when it is missing or cut off. */
export function findBackend(backend: GpuBackend, platform: string, env?: NodeJS.ProcessEnv): string | null
/** The same without the fetched one. */
export function findOwn(backend: GpuBackend, platform: string, env?: NodeJS.ProcessEnv): string | null
/** Fetches a backend's library and puts it into the cache. @returns its path. @throws SetupError */
export function fetchBackend(
  backend: GpuBackend,
  options: {
    readonly platform: string
    /** An empty folder on the cache's file system. */
    readonly workspace: string
    readonly projectRoot: string
    readonly env?: NodeJS.ProcessEnv
  },
): Promise<string>
