import type { Annotation, Leaf, Prose } from './annotation.ts'
import type { AnnotationFormat } from './hints.ts'

/** What a reply about some pictures may refer to. */
export interface Scene {
  /** Pictures, videos and sounds of the request. */
  readonly assets: number
  /** Whether one of them is a video, so that annotations may have a time. */
  readonly timed: boolean
  /** Pixels of the last picture as the model sees it; null when there is none. */
  readonly picture: { readonly width: number; readonly height: number } | null
}

/**
 * How a family of models grounds: how it is asked, what it writes, and what that means. Everything outside of
 * `grounding/` knows annotations and the contract's markup only, so every family serves the same contract.
 */
export interface Dialect {
  /** What the family can write. */
  readonly formats: readonly AnnotationFormat[]

  /**
   * Asks for annotations of a format. Stands at the head of the system turn and is the server's own text; null for a
   * family that cannot be asked so.
   */
  instruction(format: AnnotationFormat): string | null

  /** What annotations in an otherwise free reply must look like. */
  tags(format: AnnotationFormat, scene: Scene): TagRules

  /** Reads a reply as it comes. */
  reader(scene: Scene): AnnotationReader

  /** For objects of given labels and nothing else. */
  readonly detection: DetectionForms
}

/** Free text up to a trigger; from there on one of the tags that begin with it. Patterns are those of `regex/`. */
export interface TagRules {
  readonly triggers: readonly string[]
  readonly tags: readonly { readonly begin: string; readonly pattern: string; readonly end: string }[]
}

export type DetectionKind = 'box' | 'point'

/** The form in which a family is asked to detect, and answers. */
export interface DetectionForms {
  /** Stands at the head of the system turn, as `Dialect.instruction` does; null for nothing. */
  instruction(kind: DetectionKind): string | null
  /** What the user says beside the picture. @param labels null for every object that there is. */
  question(kind: DetectionKind, labels: readonly string[] | null): string
  /** The answer that consists of these leaves: what the model would have written. */
  answer(leaves: readonly Leaf[], scene: Scene): string
  /** What the whole answer looks like: leaves of one kind whose mentions are among the labels. */
  pattern(kind: DetectionKind, labels: readonly string[] | null, scene: Scene): string
}

/** Reads the text of one reply, in any pieces, as prose and annotations. */
export interface AnnotationReader {
  push(text: string): (Prose | Annotation)[]
  /** @param cut the reply was ended before its end; an annotation that is not whole then is dropped. */
  end(cut: boolean): (Prose | Annotation)[]
}

/** The whole numbers 0..1000 as a pattern. */
export const GRID_NUMBER = '(?:0|[1-9][0-9]{0,2}|1000)'

/** A pattern that matches this text only. */
export function escapePattern(text: string): string {
  return text
    .replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')
    .replace(/\n/g, '\\n')
    .replace(/\r/g, '\\r')
}
