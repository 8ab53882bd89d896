import type { Annotation, Prose } from './annotation.ts'
import type { AnnotationReader } from './dialect.ts'
import { ProseGuard } from './prose-guard.ts'

/** The result of reading a text at a position where an annotation may begin. */
export type Reading =
  /** Not an annotation: the first character is prose. */
  | { readonly type: 'prose' }
  /** Possibly the start of an annotation, depending on the text that follows. */
  | Unfinished
  /** The first `length` UTF-16 code units, at least one, hold these pieces. */
  | { readonly type: 'span'; readonly length: number; readonly pieces: readonly (Prose | Annotation)[] }

interface Unfinished {
  readonly type: 'partial'
  /** The pieces to keep if the reply is truncated here. */
  salvage?(): readonly (Prose | Annotation)[]
  /** The pieces to keep if the reply ends here. */
  readonly whole?: readonly (Prose | Annotation)[]
}

export const PROSE: Reading = { type: 'prose' }
export const UNCLEAR: Reading = { type: 'partial' }

/** A notation for annotations within prose. It may keep state about the text that it has already read. */
export interface Notation {
  /** Index of the first position at or after `from` that `read` must examine; -1 for none. */
  next(text: string, from: number): number
  read(text: string): Reading
}

/** A stateless notation whose annotations begin with one character. */
export function startingWith(character: string, read: (text: string) => Reading): Notation {
  return { next: (text, from) => text.indexOf(character, from), read }
}

/** Annotations from one mark, separated by spaces. */
export function spaced(annotations: readonly Annotation[]): (Prose | Annotation)[] {
  return annotations.flatMap((annotation, index) =>
    index > 0 ? [{ kind: 'prose', text: ' ' }, annotation] : [annotation],
  )
}

/** More characters than any annotation that fits in a reply. Longer text is prose, so that none waits forever. */
const LONGEST_ANNOTATION = 100_000

interface Guard {
  push(text: string): string
  flush(): string
}

/** Leaves prose unchanged. */
const UNGUARDED: Guard = { push: (text) => text, flush: () => '' }

/** Reads a notation from a stream. It emits prose at once, and annotations when they are complete. */
export class SpanReader implements AnnotationReader {
  readonly #notation: Notation
  readonly #guard: Guard
  #waiting = ''

  /** @param guarded whether text that looks like a tag is escaped in prose. */
  constructor(notation: Notation, { guarded = true }: { readonly guarded?: boolean } = {}) {
    this.#notation = notation
    this.#guard = guarded ? new ProseGuard() : UNGUARDED
  }

  push(text: string): (Prose | Annotation)[] {
    this.#waiting += text
    return this.#read(this.#waiting.length < LONGEST_ANNOTATION ? 'wait' : 'write')
  }

  end(cut: boolean): (Prose | Annotation)[] {
    const pieces = this.#read(cut ? 'drop' : 'write')
    const held = this.#guard.flush()
    return held === '' ? pieces : [...pieces, { kind: 'prose', text: held }]
  }

  /** @param unfinished what to do with an incomplete annotation at the end of the text. */
  #read(unfinished: 'wait' | 'drop' | 'write'): (Prose | Annotation)[] {
    const pieces: (Prose | Annotation)[] = []
    const text = this.#waiting
    let position = 0
    let prose = ''
    const add = (piece: Prose | Annotation) => {
      if (piece.kind === 'prose') prose += piece.text
      else {
        const before = this.#guard.push(prose) + this.#guard.flush()
        if (before !== '') pieces.push({ kind: 'prose', text: before })
        prose = ''
        pieces.push(piece)
      }
    }
    while (position < text.length) {
      const start = this.#notation.next(text, position)
      if (start !== position) prose += text.slice(position, start === -1 ? text.length : start)
      position = start === -1 ? text.length : start
      if (start === -1) break
      const reading = this.#notation.read(text.slice(start))
      if (reading.type === 'span') {
        for (const piece of reading.pieces) add(piece)
        position += reading.length
      } else if (unfinished === 'write' && reading.type === 'partial' && reading.whole) {
        for (const piece of reading.whole) add(piece)
        position = text.length
      } else if (reading.type === 'prose' || unfinished === 'write') {
        prose += text[position]!
        position++
      } else if (unfinished === 'drop') {
        for (const piece of reading.salvage?.() ?? []) add(piece)
        position = text.length
      } else break
    }
    const after = this.#guard.push(prose)
    if (after !== '') pieces.push({ kind: 'prose', text: after })
    this.#waiting = text.slice(position)
    return pieces
  }
}
