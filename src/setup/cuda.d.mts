import type { GpuBackend } from './backends.mjs'
import type { PrebuiltLibraries, Recipe } from './native-library.mjs'

/** Path of CUDA's compiler; null without one. */
export function findNvcc(env?: NodeJS.ProcessEnv): Promise<string | null>
/** Lookout's package of the CUDA backend for a platform. */
export function cudaPackage(platform: string): string
/** The library of Lookout's package; null where the package is not installed. */
export function findPackagedCuda(
  backend: Pick<GpuBackend, 'file'>,
  platform: string,
): {
  readonly name: string
  readonly path: string
  readonly architectures: readonly number[]
  /** Why it is not used in any case; null when nothing is wrong. */
  readonly problem: string | null
} | null
/** Adds the CUDA backend in the first of the ways that works, and logs which, or why none does. */
export function addCuda(
  backend: GpuBackend,
  to: {
    readonly prebuilt: PrebuiltLibraries
    readonly workspace: string
    readonly projectRoot: string
    readonly mayFetch: boolean
    readonly log: (message: string) => void
    /** How long set-up has run, in words. */
    readonly seconds: () => string
    readonly showProgress: (recipe: Recipe) => (done: number, all: number) => void
  },
): Promise<void>
