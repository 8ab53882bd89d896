import type { KvCache, KvSequence } from '../cache/kv-cache.ts'
import type { PrefixCache, PrefixCopy } from '../cache/prefix-cache.ts'
import type { PrefixKey } from '../cache/prefix-key.ts'

interface PendingCopy {
  readonly copy: PrefixCopy
  /** A fork of the sequence that has ended, so that its cells stay until they are copied. */
  readonly sequence: KvSequence
}

/** Time per step for copies that are begun in it; in ms. */
const BEGIN_MS = 8

/**
 * Copies ended sequences into the prefix cache without holding up those that run: small ones at once, large ones piece by
 * piece, some milliseconds per step. It owns the sequences that wait to be copied. Their cells stay in use meanwhile;
 * `giveUp` frees them.
 */
export class PrefixCopies {
  readonly #kv: KvCache
  readonly #cache: PrefixCache
  readonly #pending: PendingCopy[] = []
  /** Time that copies have taken in this step, in ms. */
  #spentMs = 0

  constructor(kv: KvCache, cache: PrefixCache) {
    this.#kv = kv
    this.#cache = cache
  }

  /** Oldest first. */
  get pending(): readonly PendingCopy[] {
    return this.#pending
  }

  /** @param sequence may be released afterwards. */
  add(organisation: string, key: PrefixKey, sequence: KvSequence): void {
    const copy = this.#cache.begin(organisation, key, sequence)
    if (copy === null) return
    if (this.#pending.length === 0 && !this.#advance(copy, sequence, BEGIN_MS)) return
    if (this.#kv.freeSequences > 0) this.#pending.push({ copy, sequence: this.#kv.fork(sequence) })
  }

  /**
   * Ends a step: copies pieces until so much time is spent on copies in this step. At least one, unless one was copied
   * when its sequence ended.
   * @returns whether any were pending.
   */
  continue(ms: number): boolean {
    const hasAny = this.#pending.length > 0
    for (let next = this.#pending[0]; next !== undefined && this.#spentMs < ms; next = this.#pending[0]) {
      if (this.#advance(next.copy, next.sequence, ms)) continue
      this.#pending.shift()
      this.#kv.release(next.sequence)
    }
    this.#spentMs = 0
    return hasAny
  }

  /** Forgets the youngest. @returns whether there was one. */
  giveUp(): boolean {
    const last = this.#pending.pop()
    if (last === undefined) return false
    this.#kv.release(last.sequence)
    return true
  }

  /** Copies pieces until so much time is spent. @returns whether there is more to copy. */
  #advance(copy: PrefixCopy, sequence: KvSequence, ms: number): boolean {
    const before = this.#spentMs
    const started = performance.now()
    while (this.#spentMs < ms) {
      const hasMore = this.#cache.copyNext(copy, sequence)
      this.#spentMs = before + performance.now() - started
      if (!hasMore) return false
    }
    return true
  }
}
