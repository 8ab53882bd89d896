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
/** Path of a backend's library; null when it is missing or cut off. */
export function backendDirectory(backend: GpuBackend, platform: string, env?: NodeJS.ProcessEnv): string

export function findBackend(backend: GpuBackend, platform: string, env?: NodeJS.ProcessEnv): string | null
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
