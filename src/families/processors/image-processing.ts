import type { FamilyImageLimits } from '../image-limits.ts'

/**
 * How a server that runs a model's own image processor handles an image, from the files of the model's Hugging Face
 * folder. It is plain data, because it crosses processes. The sources are those of Transformers and of vLLM
 * (`model_executor/models`).
 */
export interface ImageProcessing {
  /**
   * Sizes that the processor leaves unchanged. Null if the family's own rule applies, with the numbers from the files.
   */
  readonly limits: FamilyImageLimits | null
  readonly placeholder: Placeholder
  readonly tokens: ImageTokenRule
}

/** The placeholder of an image in a prompt, which the server replaces by the image's tokens. */
export interface Placeholder {
  /** What the server replaces: a control token or a text. Empty if it inserts images at the beginning of the prompt. */
  readonly target: string
  /** Texts around the target, which remain. */
  readonly before?: string
  readonly after?: string
  /** Whether the target is text, which any client could write. */
  readonly isText?: true
  /** The server merges the line breaks that it puts around an image with adjacent ones in the prompt. */
  readonly joinsLines?: true
}

/** Number of tokens that replace an image; `around` counts those that do not come from the image encoder. */
export type ImageTokenRule =
  /** One for each square of `pixelsPerToken`, and `rowEnds` for each row. */
  | { readonly count: 'squares'; readonly around: number; readonly rowEnds: 0 | 1 }
  /**
   * By tiles of `tokens` tokens, with a copy of the whole image if there are several tiles, or for any number of
   * `joined` ones.
   */
  | {
      readonly count: 'tiles'
      readonly tokens: number
      readonly copy: number
      /** Marks around the whole image, of each tile, and of each row of tiles or of a joined grid. */
      readonly around: number
      readonly perTile: number
      readonly perRow: number
      /** Whether the encoder makes the ends of rows. */
      readonly encodesRows?: true
      /** Tokens of an image of one tile, if not `tokens`. */
      readonly alone?: number
      /** Marks between several tiles and the copy. */
      readonly between?: number
      /**
       * Overlapping tiles are joined to one grid of squares with this side in pixels. The last row and column may be
       * partial.
       */
      readonly joined?: { readonly side: number }
    }

export interface ImageTokens {
  /** All tokens of the image, without the texts around the target. */
  readonly prompt: number
  /** The tokens from the image encoder, including ends of rows. */
  readonly image: number
}

/** @param size of the sent image, which satisfies the limits. */
export function countImageTokens(
  rule: ImageTokenRule,
  limits: Pick<FamilyImageLimits, 'pixelsPerToken' | 'tiles'>,
  { width, height }: { readonly width: number; readonly height: number },
): ImageTokens {
  if (rule.count === 'squares') {
    const rows = height / limits.pixelsPerToken
    const image = rows * (width / limits.pixelsPerToken + rule.rowEnds)
    return { prompt: image + rule.around, image }
  }
  const { tokens, copy, around, perTile, perRow, encodesRows, alone = tokens, between = 0, joined } = rule
  if (joined !== undefined) {
    const rows = Math.ceil(height / joined.side)
    const image = rows * Math.ceil(width / joined.side) + copy
    return { prompt: image + rows * perRow + around, image }
  }
  const { side = 1, margin = 0 } = limits.tiles ?? {}
  const rows = (height - margin) / side
  const count = rows * ((width - margin) / side)
  if (count === 1) return { prompt: alone + around, image: alone }
  const ends = rows * perRow
  const image = count * tokens + copy + (encodesRows ? ends : 0)
  return { prompt: image + count * perTile + (encodesRows ? 0 : ends) + between + around, image }
}

type Json = Readonly<Record<string, unknown>>

/** The small files of a Hugging Face folder, as far as images depend on them. */
export interface ProcessorFiles {
  /** `config.json`, and its `vision_config`. */
  readonly config: Json
  readonly vision: Json
  /** `preprocessor_config.json`, or its equivalent in `processor_config.json`. */
  readonly images: Json
  /** `processor_config.json`. */
  readonly processor: Json
  /** Whether the vocabulary has a token. */
  has(token: string): boolean
}

/** @returns a phrase that says what is missing or not supported, if images cannot be served. */
export type ProcessorReader = (files: ProcessorFiles) => ImageProcessing | string

/** A positive number in a file, or the first of a pair; undefined for anything else. */
export function numberOf(value: unknown): number | undefined {
  const first = Array.isArray(value) ? value[0] : value
  return typeof first === 'number' && first > 0 && Number.isFinite(first) ? first : undefined
}

/** A size in pixels: a number, or an object with one under one of these names. */
export function sizeOf(value: unknown, ...names: readonly string[]): number | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return numberOf(value)
  for (const name of names) {
    const found = numberOf((value as Json)[name])
    if (found !== undefined) return found
  }
  return undefined
}
