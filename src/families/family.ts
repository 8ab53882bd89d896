import type { DialectName } from '../grounding/dialects/dialects.ts'
import type { PageNotationName } from '../grounding/pages/notations.ts'
import type { DecisionForms } from './decision-forms.ts'
import type { TileRule } from './tiles.ts'
import type { ToolSyntaxName } from './tool-syntax.ts'
import type { TranscriptionForm } from './transcription.ts'
import type { VideoLayout } from './video-layout.ts'

/**
 * Facts about all models of a family, of any size and training. A model card names its family, or the model's files
 * identify it. The family supplies what the card omits.
 */
export interface Family {
  /** Its makers' name for it. */
  readonly title: string
  /**
   * Values of `clip.projector_type` (or `clip.vision.projector_type`) in the GGUF file of the image encoder that belong to
   * this family. They are the names in llama.cpp's `tools/mtmd/clip-impl.h`. Empty for a family that only a card can name.
   */
  readonly projectors: readonly string[]
  /**
   * Values of `general.architecture` in the GGUF file of the language model. Families that share a projector differ in
   * these. Empty: any architecture.
   */
  readonly architectures: readonly string[]
  /** A key that only this family's language models have in their headers. Absent if there is none. */
  readonly key?: string
  /** Distinguishes its models from those of another family whose files have the same marks. */
  is?(model: ModelTraits): boolean
  /** Layers of the smallest language model with an encoder, if smaller ones are text-only. */
  readonly fewestLayers?: number
  /** Null if the sizes of its images are unknown; the card must then give their limits. */
  readonly image: ImageRule | null
  /** Null if it is unknown how the family is shown video. */
  readonly video: VideoRule | null
  /** How it writes places (`grounding/dialects/`). Null if it does not, or in an unsupported notation. */
  readonly dialect: DialectName | null
  /** How it writes tool calls (`conversation/tools/`). Null if it does not, or if its models differ. */
  readonly toolSyntax: ToolSyntaxName | null
  /** Control tokens in its tool calls. If absent, their marks are ordinary text. */
  readonly printedTokens?: readonly string[]
  /** Null for a family without reasoning models. */
  readonly thought: ThoughtMarks | null
  /** How its models read pages; absent for models that follow instructions (`READS_IN_WORDS`). */
  readonly reading?: PageReading
  /** How its models decide; absent for models that follow instructions (`DECIDES_BY_LETTERS`). */
  readonly decision?: DecisionForms
  /** How its models are asked to transcribe speech; absent for models that follow instructions (`TRANSCRIBES`). */
  readonly transcription?: TranscriptionForm
  /** How it is asked to translate speech into English; null for one that only transcribes. `TRANSLATES` by default. */
  readonly translation?: TranscriptionForm | null
  /** All its models can think, although their chat templates neither begin a thought nor have a switch for it. */
  readonly reasonsWithoutTemplateSwitch?: true
  /** What an operator should know before relying on these facts, as a sentence without a full stop. */
  readonly warning?: string
}

/** Distinguishes models whose files have the same marks. */
export interface ModelTraits {
  /** The model's name in its files, including that of its base model; empty if absent. */
  readonly name: string
  /** Dimensions of the language model's embeddings; null if its file does not say. */
  readonly width: number | null
}

/** Defaults of a family of which only the name and the files are known. */
export const PLAIN = {
  architectures: [],
  image: null,
  video: null,
  dialect: null,
  toolSyntax: null,
  thought: null,
} as const satisfies Partial<Family>

/**
 * The size to which images are scaled: sides are multiples of the side of a token's square, `patchSize * mergeSize`
 * pixels. The encoder's file may override each number.
 */
export interface ImageRule {
  /** Side in pixels of one patch of the vision transformer. */
  readonly patchSize: number
  /** Side in patches of the square that is merged into one token. */
  readonly mergeSize: number
  /** Minimum and maximum tokens of an image. Absent if each model has its own, from its file or from the card. */
  readonly minTokens?: number
  readonly maxTokens?: number
  /** The same for an image without a requested level of detail. */
  readonly auto?: { readonly minTokens: number; readonly maxTokens: number }
  /** The encoder only takes squares of `maxTokens` tokens. */
  readonly square?: true
  /** Tokens along each side of a square, for an encoder that makes the same number for every size. */
  readonly along?: number
  /** The file's numbers are ignored: libmtmd has its own. */
  readonly fixed?: true
  /**
   * `most`: no image is enlarged, and no side is longer than `clip.vision.image_size`, which then determines the
   * maximum tokens. `always`: the longer side of every image has that length (`clip.vision.preproc_image_size`, if the
   * file has it).
   */
  readonly longestEdge?: 'most' | 'always'
  /** A token ends every row but the last, in addition to those of the squares. */
  readonly rowEnds?: true
  /** Images are cut into tiles, which determine the tokens of an image except for the minimum. */
  readonly tiles?: TileRule
}

/** The card must give absent limits. */
export interface VideoRule {
  readonly layout: VideoLayout
  /** Minimum and maximum tokens of one grid. */
  readonly minTokens?: number
  readonly maxTokens?: number
  /** Frames shown to the model per second of video, and the maximum for a whole video. */
  readonly framesPerSecond?: number
  readonly maxFrames?: number
}

/** How models read a page. */
export type PageReading =
  | {
      /** The text after the picture. It may contain control tokens. */
      readonly prompt: string
      readonly notation: PageNotationName
      /** The instruction in the system turn, before everything else. */
      readonly instruction?: string
    }
  | {
      /** The label with which the model finds texts. */
      readonly finds: string
      /** Asks for the text at a place: `{left}`, `{top}`, `{right}` and `{bottom}` from 0 to 1000. */
      readonly question: string
    }

/** How models that follow instructions read a page. */
export const READS_IN_WORDS: PageReading = {
  prompt:
    '\nWrite down everything that is printed or written on this page, as Markdown and in the order of reading: headings, paragraphs, lists, tables, and formulas in LaTeX. Keep its language. Write nothing else.',
  notation: 'markdown',
}

/** How a family marks its thoughts. */
export interface ThoughtMarks {
  /** Text at the end of a prompt that makes the model think, e.g. `<think>\n`. */
  readonly begin: string
  /** The mark that ends a thought, e.g. `</think>`. */
  readonly end: string
  /** The mark with the white space around it that precedes a reply, e.g. `\n</think>\n\n`. */
  readonly closing: string
  /** Whether the model first describes to itself what exemplars show, even when the client asks for no thinking. */
  readonly exemplars?: boolean
}

/** The marks of most models. A reply of any model that begins with this mark begins with a thought. */
export const USUAL_THOUGHT: ThoughtMarks = { begin: '<think>', end: '</think>', closing: '</think>\n\n' }
