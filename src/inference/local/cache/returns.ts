import type { PrefixKey } from './prefix-key.ts'
import { longestMatch } from './prefix-match.ts'
import { PrefixTree } from './prefix-tree.ts'

/** Something that has ended, and whether it is still held. */
interface Ended {
  readonly key: PrefixKey
}

/** Weight of what happened last. */
const WEIGHT = 1 / 8
/** Before anything is known. */
const FIRST = 0.1
/** Never less: what comes back too late to be found is not seen. */
const LEAST = 0.02
/** Ended work that has left and is remembered: this many texts, and cells of all of them together. Each cell takes a number. */
const REMEMBERED = { texts: 256, cells: 2 ** 20 }

/**
 * Knows which share of ended work is continued: nearly all of it where clients chat, hardly any where each request has a
 * new text. The copies derive from it how long cells are kept. It also remembers what has left lately, because work that
 * was dropped too soon is continued as well.
 */
export class Returns {
  #share = FIRST
  readonly #left = new Set<Ended>()
  readonly #tree = new PrefixTree<Ended>()
  /** Of all that has left and is remembered. */
  #cells = 0

  /** The chance that what has ended is continued, from 0 to 1. */
  get share(): number {
    return Math.max(LEAST, this.#share)
  }

  /** What is still held of ended work was continued. @param cells of it that were of use. */
  continued({ key }: Ended, cells: number): void {
    this.#learn(cells / key.length)
  }

  /** It was given up, and nothing had continued it. */
  leaves(organisation: string, key: PrefixKey): void {
    this.#learn(0)
    const ended = { key }
    this.#left.add(ended)
    this.#tree.add(organisation, key, ended)
    this.#cells += key.length
    for (const oldest of this.#left) {
      if (this.#left.size <= REMEMBERED.texts && this.#cells <= REMEMBERED.cells) break
      this.#forget(oldest)
    }
  }

  /**
   * A prompt is computed, at least in part.
   * @param found cells of it that are not.
   * @returns whether more had been there.
   */
  computed(organisation: string, key: PrefixKey, found: number): boolean {
    const match = longestMatch(this.#tree.find(organisation, key), key, (source, cut) => ({ source, cut }))
    if (match === null || match.cut.cells <= found) return false
    this.#forget(match.source)
    this.continued(match.source, match.cut.cells)
    return true
  }

  #forget(ended: Ended): void {
    this.#left.delete(ended)
    this.#tree.delete(ended)
    this.#cells -= ended.key.length
  }

  #learn(share: number): void {
    this.#share += WEIGHT * (share - this.#share)
  }
}
