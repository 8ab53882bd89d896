import { type AudioRule, audioRule, stacksEvenly } from './audio-encoders.ts'
import { FAMILIES, FAMILY_NAMES, type FamilyName } from './families.ts'
import type { Family, ModelTraits } from './family.ts'

/** Values in the header of a GGUF file, by key. */
export type GgufMetadata = ReadonlyMap<string, unknown>

/** The headers of a model's files. */
export interface ModelMetadata {
  readonly language: GgufMetadata
  /** Null for a model without encoders. */
  readonly encoder: GgufMetadata | null
}

/** The properties that identify a family. Null for properties that the files lack. */
export interface FamilyMarks {
  /** `general.architecture` of the language model. */
  readonly architecture: string | null
  /** The projector type of the image encoder; without one, that of the audio encoder. */
  readonly projector: string | null
  /** The family whose unique key the language model's header has. */
  readonly family?: FamilyName | undefined
  /** For families whose files have the same marks. */
  readonly traits?: ModelTraits
}

export function familyMarks({ language, encoder }: ModelMetadata): FamilyMarks {
  return {
    family: FAMILY_NAMES.find((name) => {
      const { key }: Family = FAMILIES[name]
      return key !== undefined && language.has(key)
    }),
    architecture: text(language.get('general.architecture')),
    // Files with encoders for several modalities name a projector for each.
    projector:
      text(encoder?.get('clip.vision.projector_type')) ??
      text(encoder?.get('clip.projector_type')) ??
      text(encoder?.get('clip.audio.projector_type')),
    traits: traitsOf({ language, encoder }),
  }
}

const NAMES = ['general.name', 'general.basename', 'general.base_model.0.name']

function traitsOf({ language, encoder }: ModelMetadata): ModelTraits {
  const names = [language, encoder].flatMap((header) => NAMES.map((key) => text(header?.get(key))))
  const width = language.get(`${text(language.get('general.architecture'))}.embedding_length`)
  return {
    name: names.filter((name) => name !== null).join(' '),
    width: typeof width === 'number' ? width : null,
  }
}

/** The media that the encoders of a model's files take. */
export function encoders(encoder: GgufMetadata | null): { readonly image: boolean; readonly audio: boolean } {
  return {
    image: encoder?.get('clip.has_vision_encoder') === true,
    audio: encoder?.get('clip.has_audio_encoder') === true,
  }
}

/** How many tokens audio takes; null for an unknown audio encoder. */
export function audioLimits(encoder: GgufMetadata): AudioRule | null {
  const type = audioProjector(encoder)
  if (type === null) return null
  return audioRule(type, (key) => {
    const value = encoder.get(`clip.audio.${key}`)
    return typeof value === 'number' && value > 0 ? value : undefined
  })
}

/** The projector type of an audio encoder, or of the only encoder of a file. */
export function audioProjector(encoder: GgufMetadata): string | null {
  return text(encoder.get('clip.audio.projector_type')) ?? text(encoder.get('clip.projector_type'))
}

/** Audio projectors that stack outputs of their encoder (`audio_has_stack_frames` in libmtmd). */
const STACKING: ReadonlySet<string | null> = new Set(['ultravox', 'voxtral', 'meralion'])

/** Why the library cannot run an audio encoder; null if there is no known reason. */
export function soundProblem(encoder: GgufMetadata | null): string | null {
  if (encoder === null || !STACKING.has(audioProjector(encoder))) return null
  const stack = encoder.get('clip.audio.projector.stack_factor')
  const width = encoder.get('clip.audio.embedding_length')
  if (typeof stack !== 'number' || typeof width !== 'number' || stacksEvenly(stack, width)) return null
  return `libmtmd miscounts the tokens of sound when it stacks ${stack} outputs of ${width} numbers`
}

/** Projectors whose `projection_dim` is the width of their encoder, not that of their output for the language model. */
const OTHER_WIDTHS: ReadonlySet<string> = new Set(['mlp', 'mlp_norm', 'ldp', 'ldpv2', 'resampler', 'adapter'])

/**
 * Why an encoder cannot belong to a language model: it is not an encoder, or its vectors have another length. Null if
 * there is no known reason.
 */
export function mismatch({ language, encoder }: ModelMetadata): string | null {
  const kind = text(encoder?.get('general.architecture')) ?? 'clip'
  if (kind !== 'clip') return `it is no image or audio encoder; its architecture is '${kind}'`
  const architecture = text(language.get('general.architecture'))
  const width = language.get(`${architecture}.embedding_length`)
  if (encoder === null || typeof width !== 'number') return null
  const { projector } = familyMarks({ language, encoder })
  if (projector !== null && OTHER_WIDTHS.has(projector)) return null
  const layers = language.get(`${architecture}.n_deepstack_layers`)
  const deepstack = width * (1 + (typeof layers === 'number' ? layers : 0))
  for (const kind of ['vision', 'audio'] as const) {
    const made = encoder.get(`clip.${kind}.projection_dim`)
    if (encoder.get(`clip.has_${kind}_encoder`) !== true || typeof made !== 'number') continue
    if (made !== width && made !== deepstack)
      return `it makes vectors of ${made} numbers, and the language model takes ${width}`
  }
  return null
}

/**
 * The only family that matches the marks; null if there is none. A model with an image encoder is identified by it,
 * because families share language models; its notation for coordinates is never guessed. Among families with the same
 * marks, one with a more specific test takes precedence.
 */
export function familyOf({ architecture, projector, family, traits = UNNAMED }: FamilyMarks): FamilyName | null {
  if (family !== undefined) return family
  const fitting = FAMILY_NAMES.filter((name) => {
    const { projectors, architectures }: Family = FAMILIES[name]
    const fits = architecture !== null && architectures.includes(architecture)
    return projector === null ? fits : projectors.includes(projector) && (architectures.length === 0 || fits)
  })
  const special = fitting.filter((name) => (FAMILIES[name] as Family).is?.(traits))
  const found = special.length > 0 ? special : fitting.filter((name) => (FAMILIES[name] as Family).is === undefined)
  return found.length === 1 ? found[0]! : null
}

const UNNAMED: ModelTraits = { name: '', width: null }

function text(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}
