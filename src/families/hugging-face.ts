import type { FamilyName } from './families.ts'
import { architectureOf } from './processors/architectures.ts'
import type { ImageProcessing, ProcessorFiles } from './processors/image-processing.ts'

/** A model's family and media, as its Hugging Face folder describes them. */
export interface HubModel {
  /** llama.cpp's name of the language model's architecture, if it differs. */
  readonly architecture: string
  readonly family: FamilyName | null
  /** Null for a model whose images are not served. */
  readonly images: ImageProcessing | null
  /**
   * Why images or audio are not served, if the model has an encoder for them; null for a language model, and if they
   * are served.
   */
  readonly unserved: string | null
}

/** Language models that llama.cpp names differently, by their `model_type`. */
const TEXT_NAMES: Readonly<Record<string, string>> = {
  gemma3_text: 'gemma3',
  qwen2_moe: 'qwen2moe',
  qwen3_moe: 'qwen3moe',
}

/** Keys of config.json that only models with encoders have. */
const VISION_KEYS = ['vision_config', 'visual', 'vision_tower', 'mm_vision_tower', 'thinker_config']
const AUDIO_KEYS = ['audio_config', 'audio_encoder_config', 'speech_config']

/** Advice for the card of a model whose images are not served. */
const ADVICE =
  'Write "modalities": ["text"] into the card, or let the servers place images themselves, with "type": "openai" and ' +
  '"image" limits (docs/cluster.md)'

/**
 * Whether the context in config.json has already been extended by its factor.
 * @param type its `model_type`.
 */
export function isContextExtended(type: string): boolean {
  return type.startsWith('gemma3')
}

/** @param hasProcessor whether the folder has a file with the settings of an image processor. */
export function hubModel(files: ProcessorFiles, hasProcessor: boolean): HubModel {
  const { config } = files
  const type = String(config.model_type)
  const [name = type] = Array.isArray(config.architectures) ? config.architectures.map(String) : []
  const known = architectureOf(name)
  const about = { architecture: TEXT_NAMES[type] ?? type, family: known?.family ?? null }
  const images = typeof known?.images === 'function' ? known.images(files) : (known?.images ?? null)
  if (images !== null && typeof images !== 'string') return { ...about, images, unserved: null }
  const has = (keys: readonly string[]) => keys.some((key) => (config[key] ?? null) !== null)
  const hears = has(AUDIO_KEYS) && !has(VISION_KEYS)
  if (known === null && !hears && !has(VISION_KEYS) && !hasProcessor && !/ForConditionalGeneration$/.test(name))
    return { ...about, images: null, unserved: null }
  const media = hears ? 'sound of' : 'images of'
  const reason = images ?? 'its architecture is not known here'
  return {
    ...about,
    images: null,
    unserved: `${media} ${name} ${hears ? 'is' : 'are'} not served: ${reason}. ${ADVICE}`,
  }
}
