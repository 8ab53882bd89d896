import type { Annotation, Leaf, Prose } from './annotation.ts'
import type { AnswerForm } from './answer-form.ts'
import type { AnnotationFormat } from './hints.ts'

/** In seconds from the start of a video. */
export interface TimeSpan {
  readonly from: number
  readonly to: number
}

/** The media that the annotations of a reply may refer to. */
export interface Scene {
  /** Number of images, videos and audio inputs in the request. */
  readonly assets: number
  /** Whether one of them is a video, so that annotations may have a time. */
  readonly timed: boolean
  /** By asset: the time that it covers; null for assets that are not videos. If absent, times are not limited. */
  readonly spans?: readonly (TimeSpan | null)[]
  /** Size in pixels of the last image or video frame as the model sees it; null if there is none. */
  readonly image: { readonly width: number; readonly height: number } | null
  /** The assets from which the model chooses when it names one; absent if it names none. */
  readonly choices?: readonly number[]
}

/**
 * How a model family expresses annotations: the prompts that ask for them and the notation of the replies. Code outside
 * `grounding/` knows only annotations and the contract's markup, so every family serves the same contract.
 */
export interface Dialect {
  /** The formats that the family can write. */
  readonly formats: readonly AnnotationFormat[]

  /** Marks of the notation that some vocabularies have as control tokens: the engine must be told to print those. */
  readonly marks?: readonly string[]

  /**
   * The text that asks for annotations of a format. The server puts it at the start of the system turn. Null for a
   * family that has no such instruction.
   */
  instruction(format: AnnotationFormat): string | null

  /** The grammar of annotations in an otherwise free reply. */
  tags(format: AnnotationFormat, scene: Scene): TagRules

  /** Creates a reader for one streamed reply. */
  reader(scene: Scene): AnnotationReader

  /** Prompts and answers for replies that consist of detections only. */
  readonly detection: DetectionForms
}

/** Text is free up to a trigger, which must begin one of the tags. Patterns follow `regex/`. */
export interface TagRules {
  readonly triggers: readonly string[]
  readonly tags: readonly { readonly begin: string; readonly pattern: string; readonly end: string }[]
}

export type DetectionKind = 'box' | 'point'

/** How a family is asked to detect objects, and how it answers. */
interface DetectionForms {
  /** Goes at the start of the system turn, like `Dialect.instruction`; null for none. */
  instruction(kind: DetectionKind): string | null
  /** The user's text beside the image. @param labels null for all objects. */
  question(kind: DetectionKind, labels: readonly string[] | null): string
  /** A label as the notation writes it and its reader finds it; absent if that is the label itself. */
  written?(label: string): string
  /** The answer that the model would have written for these leaves. */
  answer(leaves: readonly Leaf[], scene: Scene): string
  /** The pattern of a whole answer: leaves of one kind whose mentions are among the labels. */
  pattern(kind: DetectionKind, labels: readonly string[] | null, scene: Scene): string
  /** Where objects begin in such an answer, and where their coordinates are. */
  form(kind: DetectionKind, scene: Scene): AnswerForm
  /**
   * The pattern of one more object at the end of such an answer, when `form` says that the list has ended.
   * @param isFirst whether the answer has no object yet: the pattern then includes the beginning of the answer.
   */
  another(kind: DetectionKind, labels: readonly string[] | null, scene: Scene, isFirst: boolean): string
}

/** Splits one reply into prose and annotations, however its text is chunked. */
export interface AnnotationReader {
  push(text: string): (Prose | Annotation)[]
  /** @param cut whether the reply was truncated; an incomplete annotation at its end is then dropped. */
  end(cut: boolean): (Prose | Annotation)[]
}

/** A pattern for the integers 0..1000. */
export const GRID_NUMBER = '(?:0|[1-9][0-9]{0,2}|1000)'

/** Removes characters from a label that the notation cannot escape, such as its own marks. */
export function withoutAny(characters: RegExp): (label: string) => string {
  return (label) => label.replace(characters, ' ').trim()
}

/** A pattern that matches exactly this text. */
export function escapePattern(text: string): string {
  return text
    .replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')
    .replace(/\n/g, '\\n')
    .replace(/\r/g, '\\r')
}
