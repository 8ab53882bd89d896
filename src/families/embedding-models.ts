/**
 * The minimum dimensions of models that were trained for truncated vectors (Matryoshka), by architecture, if all of its
 * models were.
 */
export const LEAST_DIMENSIONS: Readonly<Record<string, number>> = { 'gemma-embedding': 128, qwen3: 32, qwen3vl: 64 }

/** The prompt that models of an architecture were trained with for embeddings. */
interface EmbeddingForm {
  /** `{input}` and `{instruction}` are replaced by the input and by the purpose of its vector. */
  readonly prompt: string
  /** The default instruction. */
  readonly instruction: string
}

export const EMBEDDING_FORMS: Readonly<Record<string, EmbeddingForm>> = {
  // As in Qwen3-VL-Embedding's own code, for texts and images.
  qwen3vl: {
    prompt: '<|im_start|>system\n{instruction}<|im_end|>\n<|im_start|>user\n{input}<|im_end|>\n<|im_start|>assistant\n',
    instruction: "Represent the user's input.",
  },
}

/** Tokens of an image as in the training of these models; chats with the same encoder use more, to find places. */
export const EMBEDDED_IMAGES: Readonly<Record<string, { readonly minTokens: number; readonly maxTokens: number }>> = {
  qwen3vl: { minTokens: 4, maxTokens: 1800 },
}

/** Architectures of rerankers whose scores are probabilities; those of others are logits. */
export const RATES_BY_PROBABILITY: readonly string[] = ['qwen3', 'qwen3vl']
