import type { PrebuiltLibraries } from './native-library.mjs'

export function checkKernels(
  library: string,
  prebuilt: Pick<PrebuiltLibraries, 'ggmlBase' | 'ggml'>,
  limitMs?: number,
): Promise<string | null>
