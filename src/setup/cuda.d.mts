import type { GpuBackend } from './backends.mjs'
import type { PrebuiltLibraries } from './native-library.mjs'

/** Path of CUDA's compiler; null without one. */
export function findNvcc(env?: NodeJS.ProcessEnv): Promise<string | null>
/** Compiles the backend for this machine's GPU. @returns what is wrong with the result; null when nothing is. */
export function compileCuda(
  backend: GpuBackend,
  to: {
    readonly nvcc: string
    readonly source: string
    readonly workspace: string
    readonly prebuilt: PrebuiltLibraries
    readonly progress: (done: number, all: number) => void
    readonly env?: NodeJS.ProcessEnv
  },
): Promise<string | null>
