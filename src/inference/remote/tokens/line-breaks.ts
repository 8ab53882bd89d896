/**
 * For servers that put two line breaks on either side of an image and merge them with adjacent ones: one and two become
 * three, two and two become four (`_apply_token_matches` of vLLM's models).
 */
export interface LineBreaks {
  /**
   * The same prompt without single line breaks after images: vLLM 0.32 does not recognise an image that it has merged
   * with one.
   */
  separated(tokens: readonly number[]): readonly number[]
  /** Number of tokens that the prompt loses. */
  countJoined(tokens: readonly number[]): number
}

/**
 * @param one the token of one line break.
 * @param two the token of two.
 * @param target the token that the server replaces.
 */
export function lineBreaks(one: number, two: number, target: number): LineBreaks {
  return {
    separated: (tokens) => {
      let isBehind = false
      return tokens.filter((token) => {
        if (isBehind && token === one) return false
        isBehind = token === target
        return true
      })
    },
    countJoined: (tokens) => {
      let runs = tokens.flatMap((token) => (token === target ? [2, 0, 2] : [token === one ? 1 : token === two ? 2 : 0]))
      const before = runs.length
      for (const pair of [
        [1, 2],
        [2, 1],
        [2, 2],
      ])
        runs = replaced(runs, pair)
      return before - runs.length
    },
  }
}

/** @param pair becomes one element, which no other pair has. */
function replaced(runs: readonly number[], [first, second]: readonly number[]): number[] {
  const result: number[] = []
  for (let at = 0; at < runs.length; at++) {
    const isPair = runs[at] === first && runs[at + 1] === second
    result.push(isPair ? -1 : runs[at]!)
    if (isPair) at++
  }
  return result
}
