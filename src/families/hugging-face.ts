/** What llama.cpp calls a model that Hugging Face's config.json names by its `model_type`. */
export interface GgufNames {
  /** `general.architecture` */
  readonly architecture: string
  /** `clip.projector_type`; null for a language model, or one whose pictures are not known here. */
  readonly projector: string | null
}

/** Models whose pictures vLLM takes as one token each, of which it makes one for every square of pixels. */
const SEEING: Readonly<Record<string, GgufNames>> = {
  qwen2_vl: { architecture: 'qwen2vl', projector: 'qwen2vl_merger' },
  qwen2_5_vl: { architecture: 'qwen2vl', projector: 'qwen2.5vl_merger' },
  qwen3_vl: { architecture: 'qwen3vl', projector: 'qwen3vl_merger' },
  qwen3_vl_moe: { architecture: 'qwen3vlmoe', projector: 'qwen3vl_merger' },
  qwen3_5: { architecture: 'qwen35', projector: 'qwen3vl_merger' },
  qwen3_5_moe: { architecture: 'qwen35moe', projector: 'qwen3vl_merger' },
}

/** Language models with another name than in llama.cpp. */
const READING: Readonly<Record<string, string>> = {
  gemma3_text: 'gemma3',
  qwen2_moe: 'qwen2moe',
  qwen3_moe: 'qwen3moe',
}

export function ggufNames(modelType: string): GgufNames {
  return SEEING[modelType] ?? { architecture: READING[modelType] ?? modelType, projector: null }
}
