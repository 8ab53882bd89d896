import type { Annotation } from './annotation.ts'
import { parseAnnotation } from './markup-parser.ts'

/** An annotation, and where its markup stands in the text: UTF-16 code units, the end excluded. */
export interface PlacedAnnotation {
  readonly annotation: Annotation
  readonly start: number
  readonly end: number
}

const TAG = /<(point_box|point|polygon|clip|track|collection)(?=[\s/>])/gi
/** The end of a tag, behind attributes whose values may hold anything but their own quote. */
const TAG_END = /(?:[^"'<>]|"[^"]*"|'[^']*')*>/y
/** Characters of the longest beginning that may turn out to be a tag: `<collection`. */
const LONGEST_START = 11
/** More characters than any annotation that fits in a reply, so that none is waited for forever. */
const LONGEST = 100_000

/** Finds the annotations of the contract's markup in a text that comes in pieces, each when it is complete. */
export class AnnotationScanner {
  #text = ''
  /** Where the text that `#text` holds begins. */
  #offset = 0

  push(piece: string): PlacedAnnotation[] {
    this.#text += piece
    return this.#scan(this.#text.length < LONGEST)
  }

  /** What is left, when no more text comes. */
  end(): PlacedAnnotation[] {
    return this.#scan(false)
  }

  /** @param wait whether an annotation that is not complete may yet be. */
  #scan(wait: boolean): PlacedAnnotation[] {
    const found: PlacedAnnotation[] = []
    let from = 0
    for (;;) {
      TAG.lastIndex = from
      const tag = TAG.exec(this.#text)
      if (tag === null) {
        // A tag may have begun at the end.
        const open = this.#text.lastIndexOf('<')
        from = open >= from && this.#text.length - open <= LONGEST_START ? open : this.#text.length
        break
      }
      const end = endOf(this.#text, tag)
      if (end === null && wait) {
        from = tag.index
        break
      }
      const annotation = end === null ? null : parseAnnotation(this.#text.slice(tag.index, end))
      if (annotation !== null) found.push({ annotation, start: this.#offset + tag.index, end: this.#offset + end! })
      from = annotation === null ? tag.index + 1 : end!
    }
    this.#offset += from
    this.#text = this.#text.slice(from)
    return found
  }
}

/** Where an element ends that begins with this tag; null if that has not come yet. */
function endOf(text: string, { index, 1: name }: RegExpExecArray): number | null {
  TAG_END.lastIndex = index + 1
  if (!TAG_END.test(text)) return null
  const open = TAG_END.lastIndex
  if (text[open - 2] === '/') return open
  const close = new RegExp(`</${name}\\s*>`, 'gi')
  close.lastIndex = open
  return close.test(text) ? close.lastIndex : null
}
