/** What local models may run on: the best that is installed, the CPU alone, or GPUs by one of ggml's backends. */
export const BACKENDS = ['auto', 'cpu', 'vulkan', 'cuda', 'metal'] as const
export type Backend = (typeof BACKENDS)[number]
