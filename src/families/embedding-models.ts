/** The fewest dimensions of models that were trained to be cut (Matryoshka), by architecture, where all of its models were. */
export const LEAST_DIMENSIONS: Readonly<Record<string, number>> = { 'gemma-embedding': 128, qwen3: 32, qwen3vl: 64 }

/** Architectures of rerankers whose scores are probabilities; those of others are logits. */
export const RATES_BY_PROBABILITY: readonly string[] = ['qwen3', 'qwen3vl']
