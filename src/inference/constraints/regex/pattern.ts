import { sumOf } from '../../../lib/sum.ts'
import { ALL, type CodePoints } from './code-points.ts'

/**
 * A regular expression as a tree. It matches whole texts: anchors are gone, and `searching` adds what a search skips.
 */
export type Pattern = CharacterPattern | SequencePattern | ChoicePattern | RepeatPattern

/** One character from a set; an empty set never matches. */
interface CharacterPattern {
  readonly type: 'character'
  readonly set: CodePoints
}

interface SequencePattern {
  readonly type: 'sequence'
  readonly parts: readonly Pattern[]
}

interface ChoicePattern {
  readonly type: 'choice'
  readonly options: readonly Pattern[]
}

interface RepeatPattern {
  readonly type: 'repeat'
  readonly part: Pattern
  readonly min: number
  /** Null for no end. */
  readonly max: number | null
}

/** A regular expression as written: a pattern with conditions on the text before and after a place. */
export type Syntax =
  | CharacterPattern
  | Assertion
  | { readonly type: 'sequence'; readonly parts: readonly Syntax[] }
  | { readonly type: 'choice'; readonly options: readonly Syntax[] }
  | { readonly type: 'repeat'; readonly part: Syntax; readonly min: number; readonly max: number | null }

/** A condition on the whole text before or after a place in it. */
export interface Assertion {
  readonly type: 'assertion'
  readonly side: 'before' | 'after'
  /** A pattern that must match all of the text on that side. */
  readonly text: Syntax
  /** Whether the pattern must not match. */
  readonly negated: boolean
  /** As written, such as `(?=`. */
  readonly name: string
  /** Index in the pattern, in characters. */
  readonly at: number
}

/** A pattern for a part of a text, and where in the text the part must be. */
export interface AnchoredPattern {
  /** Whether the match must begin at the start of the text. */
  readonly start: boolean
  /** Whether the match must end at the end of the text. */
  readonly end: boolean
  readonly pattern: Pattern
}

/** The empty text. */
export const EMPTY: Pattern = { type: 'sequence', parts: [] }

/** Any text. */
export const ANYTHING: Pattern = { type: 'repeat', part: { type: 'character', set: ALL }, min: 0, max: null }

export function isEmpty(pattern: Pattern): boolean {
  return pattern.type === 'sequence' && pattern.parts.length === 0
}

/** Matches the patterns in sequence. */
export function inOrder(parts: readonly Pattern[]): Pattern {
  return parts.length === 1 ? parts[0]! : { type: 'sequence', parts }
}

/** Matches any of the patterns. */
export function joined(options: readonly Pattern[]): Pattern {
  return options.length === 1 ? options[0]! : { type: 'choice', options }
}

export interface Lengths {
  readonly min: number
  /** Infinity for no end. */
  readonly max: number
}

/** Lengths of the texts that a pattern matches, in characters. */
export function lengthsOf(pattern: Pattern): Lengths {
  switch (pattern.type) {
    case 'character':
      return { min: 1, max: 1 }
    case 'sequence': {
      const parts = pattern.parts.map(lengthsOf)
      return { min: sumOf(parts, ({ min }) => min), max: sumOf(parts, ({ max }) => max) }
    }
    case 'choice': {
      const options = pattern.options.map(lengthsOf)
      return {
        min: Math.min(...options.map(({ min }) => min)),
        max: Math.max(...options.map(({ max }) => max)),
      }
    }
    case 'repeat': {
      const part = lengthsOf(pattern.part)
      const times = pattern.max ?? Number.POSITIVE_INFINITY
      return { min: part.min * pattern.min, max: part.max === 0 || times === 0 ? 0 : part.max * times }
    }
  }
}
