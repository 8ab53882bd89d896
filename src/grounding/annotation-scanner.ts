import type { Annotation } from './annotation.ts'
import { GrowingAnnotation } from './markup-parser.ts'

/** An annotation, and the range of its markup in the text: UTF-16 code units, end exclusive. */
export interface PlacedAnnotation {
  readonly annotation: Annotation
  readonly start: number
  readonly end: number
}

const TAG = /<(point_box|point|polygon|clip|track|collection)(?=[\s/>])/gi
/** Length of the longest incomplete tag start: `<collection`. */
const LONGEST_START = 11
/** More characters than any annotation in a reply: longer ones are not waited for. */
const LONGEST = 100_000

/** Finds the complete annotations of the contract's markup in a text that arrives in pieces. */
export class AnnotationScanner {
  #text = ''
  /** Offset of `#text` in the whole text. */
  #offset = 0
  readonly #pending = new GrowingAnnotation()

  push(piece: string): PlacedAnnotation[] {
    this.#text += piece
    return this.#scan(this.#text.length < LONGEST)
  }

  /** Processes the remaining text at the end. */
  end(): PlacedAnnotation[] {
    return this.#scan(false)
  }

  /** @param wait whether an incomplete annotation may still be completed. */
  #scan(wait: boolean): PlacedAnnotation[] {
    const found: PlacedAnnotation[] = []
    let from = 0
    for (;;) {
      TAG.lastIndex = from
      const tag = TAG.exec(this.#text)
      if (tag === null) {
        // A tag may begin at the end.
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
