type Tokens = Readonly<ArrayLike<number>> & Iterable<number>

/** Returns the same tokens, where the sequence is not among them. */
export type TextGuard = (tokens: Tokens) => Iterable<number>

/**
 * Keeps a sequence of tokens out of what clients and models write where a server takes it for an image: it then has a space in
 * it. It matters for placeholders that are texts, such as `<image>`; no text becomes one that is a control token.
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
