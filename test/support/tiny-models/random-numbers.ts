/** A source of random 32-bit integers (xorshift32), seeded with a text. */
export function randomIntegers(seed: string): () => number {
  let state = 0x811c9dc5
  for (const character of seed) state = Math.imul(state ^ character.codePointAt(0)!, 0x01000193)
  state ||= 1
  const next = () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return state
  }
  for (let i = 0; i < 8; i++) next()
  return next
}

/** A source of normally distributed numbers (Box-Muller), seeded with a text. */
export function normalNumbers(seed: string): () => number {
  const next = randomIntegers(seed)
  const uniform = () => ((next() >>> 0) + 0.5) / 2 ** 32
  return () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform())
}
