type Tokens = Readonly<ArrayLike<number>> & Iterable<number>

/** Returns the same tokens if they do not contain the sequence. */
export type TextGuard = (tokens: Tokens) => Iterable<number>

/**
 * Keeps a sequence of tokens that a server would replace by an image out of untrusted and generated text, by inserting
 * a space into it. Needed only for placeholders that are text, such as `<image>`; no untrusted text becomes a control
 * token.
 */
export function textGuard(sequence: readonly number[], space: readonly number[]): TextGuard {
  const [first, second] = sequence
  const continues = (tokens: Tokens, from: number) => sequence.every((token, index) => tokens[from + index] === token)
  return (tokens) => {
    const guarded: number[] = []
    let at = 0
    for (const token of tokens) {
      const before = guarded.at(-1)
      if (at > 0 && before === first && token === second && continues(tokens, at - 1)) guarded.push(...space)
      guarded.push(token)
      at++
    }
    return guarded
  }
}
