/** Masks of tokens, as `Matcher.nextTokens` returns them: a bit for each token, 32 to a word. */

const BITS = 32

/** The token of a mask that has no other. */
export function onlyToken(mask: Int32Array): number | null {
  let only: number | null = null
  for (let word = 0; word < mask.length; word++) {
    const bits = mask[word]!
    if (bits === 0) continue
    if (only !== null || (bits & (bits - 1)) !== 0) return null
    only = word * BITS + highestBit(bits)
  }
  return only
}

/** Whether a property holds for some token of the mask. */
export function someToken(mask: Int32Array, holds: (token: number) => boolean): boolean {
  return mask.some((word, index) => {
    for (let bits = word; bits !== 0; bits &= bits - 1) {
      if (holds(index * BITS + highestBit(bits & -bits))) return true
    }
    return false
  })
}

/** Makes the logits of all other tokens minus infinity. */
export function forbidOthers(logits: Float32Array, mask: Int32Array): void {
  for (let word = 0; word * BITS < logits.length; word++) {
    const bits = mask[word] ?? 0
    const start = word * BITS
    if (bits === 0) logits.fill(Number.NEGATIVE_INFINITY, start, start + BITS)
    else if (bits !== -1) {
      const end = Math.min(start + BITS, logits.length)
      for (let token = start; token < end; token++) {
        if (((bits >>> (token - start)) & 1) === 0) logits[token] = Number.NEGATIVE_INFINITY
      }
    }
  }
}

/**
 * The token with the largest logit, the lowest of those with the same. One that is not a number is smaller than any other.
 * @param mask the tokens to choose from; all when it is left out.
 */
export function likeliestToken(logits: Float32Array, mask?: Int32Array): number {
  return mask === undefined ? likeliestOfAll(logits) : likeliestOf(logits, mask)
}

function likeliestOfAll(logits: Float32Array): number {
  let best = 0
  let most = Number.NEGATIVE_INFINITY
  for (let token = 0; token < logits.length; token++) {
    const logit = logits[token]!
    if (logit > most) {
      most = logit
      best = token
    }
  }
  return best
}

function likeliestOf(logits: Float32Array, mask: Int32Array): number {
  let best: number | null = null
  let most = Number.NEGATIVE_INFINITY
  for (let word = 0; word < mask.length; word++) {
    const bits = mask[word]!
    if (bits === 0) continue
    const start = word * BITS
    const end = Math.min(start + BITS, logits.length)
    // Few logits are larger than all before them, so their bits are looked at last.
    for (let token = start; token < end; token++) {
      const logit = logits[token]!
      if (logit > most && ((bits >>> (token - start)) & 1) === 1) {
        most = logit
        best = token
      }
    }
  }
  return best ?? lowestToken(mask)
}

/** 0 when there is none. */
function lowestToken(mask: Int32Array): number {
  const word = mask.findIndex((bits) => bits !== 0)
  return word === -1 ? 0 : word * BITS + highestBit(mask[word]! & -mask[word]!)
}

/** Of a word that is not 0. */
function highestBit(bits: number): number {
  return BITS - 1 - Math.clz32(bits)
}
