import type { PrefixKey } from './prefix-key.ts'
import { longestMatch } from './prefix-match.ts'
import { PrefixTree } from './prefix-tree.ts'

/** Ended work whose cells are still held. */
interface Ended {
  readonly key: PrefixKey
}

/** Weight of the newest observation. */
const WEIGHT = 1 / 8
/** Prior of the share. */
const FIRST = 0.1
/** Minimum share: work that is continued too late is not observed. */
const LEAST = 0.02
/** Limits of released work that is remembered: keys, and their cells in total. Each cell takes a number. */
const REMEMBERED = { texts: 256, cells: 2 ** 20 }

/**
 * Estimates the share of ended work that is continued: nearly all in chats, hardly any if each request has a new text.
 * `PrefixCopies` derives from it how long cells are kept. It also remembers recently released work, because that may be
 * continued too.
 */
export class Returns {
  #share = FIRST
  readonly #left = new Set<Ended>()
  readonly #tree = new PrefixTree<Ended>()
  /** Cells of all remembered work. */
  #cells = 0

  /** The probability that ended work is continued, from 0 to 1. */
  get share(): number {
    return Math.max(LEAST, this.#share)
  }

  /** Records that held work was continued. @param cells of it that were reused. */
  continued({ key }: Ended, cells: number): void {
    this.#learn(cells / key.length)
  }

  /** Records that work was released without being continued. */
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
   * Records that a prompt is computed, at least in part.
   * @param found cells of it that were reused.
   * @returns whether released work had more of its cells.
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
