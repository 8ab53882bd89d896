/** Masks of tokens, as `Matcher.nextTokens` returns them: a bit for each token, 32 to a word. */

const BITS = 32

/** The only token of a mask; null if there are several or none. */
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

/** Whether some token of the mask has a property. */
export function someToken(mask: Int32Array, holds: (token: number) => boolean): boolean {
  return mask.some((word, index) => {
    for (let bits = word; bits !== 0; bits &= bits - 1) {
      if (holds(index * BITS + highestBit(bits & -bits))) return true
    }
    return false
  })
}

/** The index of the highest set bit of a word that is not 0. */
function highestBit(bits: number): number {
  return BITS - 1 - Math.clz32(bits)
}
