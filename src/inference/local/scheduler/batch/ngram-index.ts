/**
 * Tokens of an n-gram. An earlier occurrence predicts the next token; shorter n-grams would predict often, and often wrongly.
 */
const NGRAM = 3
/** Longer matches count as this long: their predictions are hardly better. */
const LONGEST_MATCH = 16
const SMALLEST = 256

/** Represents everything that is not text. No prediction crosses it. */
export const GAP = -1

/**
 * Predicts the next tokens of a text from an earlier occurrence of its last tokens, in the prompt or in the reply so far.
 * Adding a token takes constant time: a hash table has the last end of every n-gram. It owns the text and the index that is
 * being repeated. The drafter calls it.
 */
export class NgramIndex {
  #tokens = new Int32Array(SMALLEST)
  #length = 0
  /** By hash: the index after the last n-gram with that hash; 0 for none. A newer one replaces an older one. */
  #ends = new Int32Array(2 * SMALLEST)
  /** Tokens since the last gap. */
  #run = 0
  /** Index of the token that is predicted, or -1. */
  #source = -1
  #matched = 0

  /** The token that is predicted next, or null. */
  get predicted(): number | null {
    const token = this.#source < 0 ? GAP : this.#tokens[this.#source]!
    return token < 0 ? null : token
  }

  /** Length of the match: tokens before the predicted one that equal the end of the text; 0 without a prediction. */
  get matched(): number {
    return this.predicted === null ? 0 : this.#matched
  }

  /** @param token or `GAP`. */
  push(token: number): void {
    if (this.#length === this.#tokens.length) this.#enlarge()
    const goesOn = token >= 0 && this.predicted === token
    this.#tokens[this.#length++] = token
    this.#run = token < 0 ? 0 : this.#run + 1
    if (goesOn) {
      this.#source++
      this.#matched = Math.min(LONGEST_MATCH, this.#matched + 1)
    } else this.#source = -1
    if (this.#run < NGRAM) return
    const slot = this.#slot(this.#length)
    if (!goesOn) this.#find(this.#ends[slot]!)
    this.#ends[slot] = this.#length
  }

  /** The tokens after the earlier occurrence, at most `most`. A text that has begun to repeat itself is expected to go on. */
  draft(most: number): number[] {
    const draft: number[] = []
    if (this.#source < 0) return draft
    for (let at = this.#source; draft.length < most; at++) {
      const token = at < this.#length ? this.#tokens[at]! : draft[at - this.#length]!
      if (token < 0) break
      draft.push(token)
    }
    return draft
  }

  /** @param end index after an n-gram that may be the same as the last one; 0 for none. */
  #find(end: number): void {
    let matched = 0
    const most = Math.min(LONGEST_MATCH, end)
    while (matched < most && this.#tokens[end - 1 - matched] === this.#tokens[this.#length - 1 - matched]) {
      if (this.#tokens[end - 1 - matched]! < 0) break
      matched++
    }
    if (matched < NGRAM) return
    this.#source = end
    this.#matched = matched
  }

  /** The table slot of the n-gram that ends before an index. */
  #slot(end: number): number {
    let hash = 0
    for (let at = end - NGRAM; at < end; at++) hash = Math.imul(hash ^ this.#tokens[at]!, 0x9e3779b1)
    return (hash ^ (hash >>> 15)) & (this.#ends.length - 1)
  }

  #enlarge(): void {
    const tokens = new Int32Array(2 * this.#length)
    tokens.set(this.#tokens)
    this.#tokens = tokens
    this.#ends = new Int32Array(2 * tokens.length)
    let run = 0
    for (let at = 0; at < this.#length; at++) {
      run = tokens[at]! < 0 ? 0 : run + 1
      if (run >= NGRAM) this.#ends[this.#slot(at + 1)] = at + 1
    }
  }
}
