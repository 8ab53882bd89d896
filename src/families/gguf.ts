import type { ImageRule } from './family.ts'
import { FAMILIES, FAMILY_NAMES, type FamilyName } from './index.ts'

/** Values in the header of a GGUF file, by key. */
export type GgufMetadata = ReadonlyMap<string, unknown>

/** The headers of a model's files. */
export interface ModelMetadata {
  readonly language: GgufMetadata
  /** Null for a model without encoders. */
  readonly encoder: GgufMetadata | null
}

/** What decides on the family. Null where the files do not say. */
export interface FamilyMarks {
  /** `general.architecture` of the language model. */
  readonly architecture: string | null
  /** The projector type of the image encoder. */
  readonly projector: string | null
}

export function familyMarks({ language, encoder }: ModelMetadata): FamilyMarks {
  return {
    architecture: text(language.get('general.architecture')),
    // Files with encoders for several modalities name a projector for each.
    projector: text(encoder?.get('clip.vision.projector_type')) ?? text(encoder?.get('clip.projector_type')),
  }
}

/**
 * The one family that the marks fit; null when none does. A model that has an image encoder is known by that, since
 * language models are shared between families, and its notation for coordinates is never guessed.
 */
export function familyOf({ architecture, projector }: FamilyMarks): FamilyName | null {
  const fitting = FAMILY_NAMES.filter((name) => {
    const { projectors, architectures } = FAMILIES[name]
    const fits = architecture !== null && architectures.includes(architecture)
    return projector === null ? fits : projectors.includes(projector) && (architectures.length === 0 || fits)
  })
  return fitting.length === 1 ? fitting[0]! : null
}

/** Limits of prepared images, in the terms of model cards. */
export interface FamilyImageLimits {
  readonly pixelsPerToken: number
  readonly minTokens?: number
  readonly maxTokens?: number
  readonly square?: true
}

/** The family's rule with the numbers that the encoder's file has of its own. */
export function imageLimits(rule: ImageRule, encoder: GgufMetadata | null): FamilyImageLimits {
  const number = (key: string): number | undefined => {
    const value = encoder?.get(`clip.vision.${key}`)
    return typeof value === 'number' && value > 0 ? value : undefined
  }
  const merge = number('spatial_merge_size') ?? number('projector.scale_factor') ?? rule.mergeSize
  const pixelsPerToken = (number('patch_size') ?? rule.patchSize) * merge
  const side = number('image_size')
  if (rule.square && side !== undefined) {
    const tokens = Math.max(1, Math.round(side / pixelsPerToken)) ** 2
    return { pixelsPerToken, minTokens: tokens, maxTokens: tokens, square: true }
  }
  const tokens = (key: string): number | undefined => {
    const pixels = number(key)
    return pixels === undefined ? undefined : Math.max(1, Math.round(pixels / pixelsPerToken ** 2))
  }
  const minTokens = tokens('image_min_pixels') ?? rule.minTokens
  const maxTokens = tokens('image_max_pixels') ?? rule.maxTokens
  return {
    pixelsPerToken,
    ...(minTokens === undefined ? {} : { minTokens }),
    ...(maxTokens === undefined ? {} : { maxTokens }),
    ...(rule.square ? { square: true } : {}),
  }
}

function text(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}
