export interface Found {
  /** Text that contains no marker, nor the start of one. */
  readonly before: string
  /** The marker that follows; null when none has been found yet. */
  readonly marker: string | null
  readonly rest: string
}

/** Finds markers in a streamed text. It holds back text that may be the start of a marker. */
export class MarkerScanner {
  readonly #markers: readonly string[]
  #held = ''

  constructor(markers: readonly string[]) {
    this.#markers = markers
  }

  /** Finds the first marker. No marker may be a prefix of another. */
  find(text: string): Found {
    const all = this.#held + text
    this.#held = ''
    let at = all.length
    let marker: string | null = null
    for (const candidate of this.#markers) {
      const found = all.indexOf(candidate)
      if (found !== -1 && found < at) {
        at = found
        marker = candidate
      }
    }
    if (marker !== null) return { before: all.slice(0, at), marker, rest: all.slice(at + marker.length) }
    const cut = all.length - begunMarker(all, this.#markers)
    this.#held = all.slice(cut)
    return { before: all.slice(0, cut), marker: null, rest: '' }
  }

  /** Returns the text held back, which turned out not to be a marker. */
  end(): string {
    const held = this.#held
    this.#held = ''
    return held
  }
}

/** Length of the longest suffix of a text that is the beginning of a marker, and not all of it. */
export function begunMarker(text: string, markers: readonly string[]): number {
  let longest = 0
  for (const marker of markers) {
    for (let length = Math.min(marker.length - 1, text.length); length > longest; length--) {
      if (text.endsWith(marker.slice(0, length))) longest = length
    }
  }
  return longest
}
