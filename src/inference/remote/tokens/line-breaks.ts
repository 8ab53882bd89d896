/**
 * For servers that put two line breaks on either side of an image and join them with those beside them: one and two become
 * three, two and two become four (`_apply_token_matches` of vLLM's models).
 */
export class LineBreaks {
  readonly #one: number
  readonly #two: number
  readonly #target: number

  /** @param one token of a line break. @param two token of two. @param target token that the server replaces. */
  constructor(one: number, two: number, target: number) {
    this.#one = one
    this.#two = two
    this.#target = target
  }

  /** The same prompt without single line breaks behind images: vLLM 0.32 does not find an image again that it has joined with one. */
  separated(tokens: readonly number[]): readonly number[] {
    let isBehind = false
    return tokens.filter((token) => {
      if (isBehind && token === this.#one) return false
      isBehind = token === this.#target
      return true
    })
  }

  /** How many tokens the prompt loses. */
  countJoined(tokens: readonly number[]): number {
    let runs = tokens.flatMap((token) =>
      token === this.#target ? [2, 0, 2] : [token === this.#one ? 1 : token === this.#two ? 2 : 0],
    )
    const before = runs.length
    for (const pair of [
      [1, 2],
      [2, 1],
      [2, 2],
    ])
      runs = replaced(runs, pair)
    return before - runs.length
  }
}

/** @param pair which becomes one element that no other pair has. */
function replaced(runs: readonly number[], [first, second]: readonly number[]): number[] {
  const result: number[] = []
  for (let at = 0; at < runs.length; at++) {
    const isPair = runs[at] === first && runs[at + 1] === second
    result.push(isPair ? -1 : runs[at]!)
    if (isPair) at++
  }
  return result
}
