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
/** Ended work that has left and is remembered, by a number for each cell. */
const REMEMBERED = 256

/**
 * Knows how much of what has ended is asked about again: nearly all of it where clients chat, hardly anything where each
 * request has a new text. The copies ask it how long to keep what has ended. It owns that share and remembers what has left lately,
 * because what was dropped too soon comes back, too.
 */
export class Returns {
  #share = FIRST
  readonly #left = new Set<Ended>()
  readonly #tree = new PrefixTree<Ended>()

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
    for (const oldest of this.#left) {
      if (this.#left.size <= REMEMBERED) break
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
  }

  #learn(share: number): void {
    this.#share += WEIGHT * (share - this.#share)
  }
}
