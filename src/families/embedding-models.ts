/** The fewest dimensions of models that were trained to be cut (Matryoshka), by architecture, where all of its models were. */
export const LEAST_DIMENSIONS: Readonly<Record<string, number>> = { 'gemma-embedding': 128, qwen3: 32, qwen3vl: 64 }

/** How models of an architecture were trained to be shown what they make vectors of. */
interface EmbeddingForm {
  /** `{input}` and `{instruction}` stand for the input and for what its vector is for. */
  readonly prompt: string
  /** What is said where a request says nothing. */
  readonly instruction: string
}

export const EMBEDDING_FORMS: Readonly<Record<string, EmbeddingForm>> = {
  // As Qwen3-VL-Embedding's own code writes it, for texts as for images.
  qwen3vl: {
    prompt: '<|im_start|>system\n{instruction}<|im_end|>\n<|im_start|>user\n{input}<|im_end|>\n<|im_start|>assistant\n',
    instruction: "Represent the user's input.",
  },
}

/** Tokens of an image as these models were trained; chats with the same encoder take more, to find places. */
export const EMBEDDED_IMAGES: Readonly<Record<string, { readonly minTokens: number; readonly maxTokens: number }>> = {
  qwen3vl: { minTokens: 4, maxTokens: 1800 },
}

/** Architectures of rerankers whose scores are probabilities; those of others are logits. */
export const RATES_BY_PROBABILITY: readonly string[] = ['qwen3', 'qwen3vl']
