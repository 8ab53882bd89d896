import type { DialectName } from '../grounding/dialects/dialects.ts'
import type { PageNotationName } from '../grounding/pages/notations.ts'
import type { DecisionForms } from './decision-forms.ts'
import type { TileRule } from './tiles.ts'
import type { ToolSyntaxName } from './tool-syntax.ts'
import type { TranscriptionForm } from './transcription.ts'
import type { VideoLayout } from './video-layout.ts'

/**
 * What is true of all models of a family, of any size and training. A model card names its family, or the model's files
 * reveal it. The family supplies what the card leaves out.
 */
export interface Family {
  /** What its makers call it. */
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
  /** A key in the header of its language models that no other family's have. Left out where there is none. */
  readonly key?: string
  /** Tells its models from those of another family whose files have the same marks. */
  is?(model: ModelTraits): boolean
  /** Layers of the smallest language model that comes with an encoder, where smaller ones are for text alone. */
  readonly fewestLayers?: number
  /** Null where it is not known how images are sized; the card must then give their limits. */
  readonly image: ImageRule | null
  /** Null where it is not known how the family is shown video. */
  readonly video: VideoRule | null
  /** How it writes where things are (`grounding/dialects/`). Null: it does not, or in a way that is not read here. */
  readonly dialect: DialectName | null
  /** How it writes tool calls (`conversation/tools/`). Null: not at all, or it differs between its models. */
  readonly toolSyntax: ToolSyntaxName | null
  /** Control tokens that its tool calls consist of. Left out: none, its marks are printed like any text. */
  readonly printedTokens?: readonly string[]
  /** Null for a family without models that think first. */
  readonly thought: ThoughtMarks | null
  /** How its models read pages; left out for models that follow instructions (`READS_IN_WORDS`). */
  readonly reading?: PageReading
  /** How its models decide; left out for models that follow instructions (`DECIDES_BY_LETTERS`). */
  readonly decision?: DecisionForms
  /** How its models are asked to write down speech; left out for models that follow instructions (`TRANSCRIBES`). */
  readonly transcription?: TranscriptionForm
  /** How it is asked for English; null for one that only transcribes. By default as `TRANSLATES` says. */
  readonly translation?: TranscriptionForm | null
  /** All its models can think, though their chat templates neither open a thought nor have a switch for it. */
  readonly reasonsWithoutTemplateSwitch?: true
  /** What an operator should know before trusting what is said here, as a sentence without its end. */
  readonly warning?: string
}

/** What tells models apart whose files have the same marks. */
export interface ModelTraits {
  /** What the files call the model, its base model included; empty where they do not say. */
  readonly name: string
  /** Numbers in one embedding of the language model; null where its file does not say. */
  readonly width: number | null
}

/** What a family has where it says nothing else: no more is known of it than its name and files. */
export const PLAIN = {
  architectures: [],
  image: null,
  video: null,
  dialect: null,
  toolSyntax: null,
  thought: null,
} as const satisfies Partial<Family>

/**
 * To which size images are stretched: sides are multiples of the side of a token's square, `patchSize * mergeSize` pixels.
 * The file of the encoder may say otherwise in each number.
 */
export interface ImageRule {
  /** Side in pixels of one patch of the vision transformer. */
  readonly patchSize: number
  /** Side in patches of the square that is merged into one token. */
  readonly mergeSize: number
  /** Tokens of one image, at least and at most. Left out where each model has its own: its file says, or the card must. */
  readonly minTokens?: number
  readonly maxTokens?: number
  /** The same for an image that the client wants no particular detail of. */
  readonly auto?: { readonly minTokens: number; readonly maxTokens: number }
  /** The encoder takes squares of `maxTokens` tokens only. */
  readonly square?: true
  /** Tokens along each side of a square, where the encoder makes as many of every size. */
  readonly along?: number
  /** The file's numbers are not read: libmtmd has its own. */
  readonly fixed?: true
  /**
   * `most`: no image is enlarged, nor is a side longer than `clip.vision.image_size`, which then decides on the most tokens.
   * `always`: the longer side of every image has that length (`clip.vision.preproc_image_size`, if the file has it).
   */
  readonly longestEdge?: 'most' | 'always'
  /** A token ends every row but the last, beside those of the squares. */
  readonly rowEnds?: true
  /** Images are cut into tiles. The tokens of an image then follow from them, except the least. */
  readonly tiles?: TileRule
}

/** Limits that are left out are for the card to give. */
export interface VideoRule {
  readonly layout: VideoLayout
  /** Tokens of one grid, at least and at most. */
  readonly minTokens?: number
  readonly maxTokens?: number
  /** Frames shown to the model per second of video, and of a whole video at most. */
  readonly framesPerSecond?: number
  readonly maxFrames?: number
}

/** How models read a page. */
export type PageReading =
  | {
      /** What stands behind the picture. It may hold control tokens. */
      readonly prompt: string
      readonly notation: PageNotationName
      /** What stands before all else, in the system turn. */
      readonly instruction?: string
    }
  | {
      /** The label by which the model finds texts. */
      readonly finds: string
      /** Asks what a text says that is at a place: `{left}`, `{top}`, `{right}` and `{bottom}` from 0 to 1000. */
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
  /** Whether the model first tells itself what exemplars show, even when the client asks for no thinking. */
  readonly exemplars?: boolean
}

/** How most models mark thoughts. A reply of any model that begins with this mark begins with a thought. */
export const USUAL_THOUGHT: ThoughtMarks = { begin: '<think>', end: '</think>', closing: '</think>\n\n' }
