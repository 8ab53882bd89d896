import type { PrebuiltLibraries } from './native-library.mjs'

export function checkKernels(
  kernels: string,
  prebuilt: Pick<PrebuiltLibraries, 'ggmlBase' | 'ggml'>,
  limitMs?: number,
): Promise<string | null>
