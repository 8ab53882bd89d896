import type { Annotation } from './annotation.ts'
import { GrowingAnnotation } from './markup-parser.ts'

/** An annotation, and where its markup stands in the text: UTF-16 code units, the end excluded. */
export interface PlacedAnnotation {
  readonly annotation: Annotation
  readonly start: number
  readonly end: number
}

const TAG = /<(point_box|point|polygon|clip|track|collection)(?=[\s/>])/gi
/** Characters of the longest beginning that may turn out to be a tag: `<collection`. */
const LONGEST_START = 11
/** More characters than any annotation that fits in a reply, so that none is waited for forever. */
const LONGEST = 100_000

/** Finds the annotations of the contract's markup in a text that comes in pieces, each when it is complete. */
export class AnnotationScanner {
  #text = ''
  /** Where the text that `#text` holds begins. */
  #offset = 0
  readonly #pending = new GrowingAnnotation()

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
      const at = this.#pending.find(this.#text.slice(tag.index))
      if (at === 'unclear' && wait) {
        from = tag.index
        break
      }
      const is = at !== null && at !== 'unclear'
      const end = tag.index + (is ? at.end : 1)
      if (is) found.push({ annotation: at.annotation, start: this.#offset + tag.index, end: this.#offset + end })
      from = end
    }
    this.#offset += from
    this.#text = this.#text.slice(from)
    return found
  }
}
