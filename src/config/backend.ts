/**
 * Where local models may run: on the best backend that is installed, on the CPU alone, or on GPUs with one of ggml's
 * backends.
 */
export const BACKENDS = ['auto', 'cpu', 'vulkan', 'cuda', 'metal'] as const
export type Backend = (typeof BACKENDS)[number]
