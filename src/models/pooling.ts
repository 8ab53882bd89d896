/** How the vectors of a text's tokens become one, or a score: llama.cpp's `llama_pooling_type` from 1 on. */
export const POOLINGS = ['mean', 'cls', 'last', 'rank'] as const
export type Pooling = (typeof POOLINGS)[number]
