/**
 * Where the values of a completed card come from, by their path in it (`serves[0].name`). A value without an entry is
 * written in the card, or is the default.
 */
export class Origins {
  readonly #origins = new Map<string, string>()

  /** Records where a value comes from. @returns the value. */
  note<Value>(path: string, value: Value, origin: string): Value {
    if (value !== undefined) this.#origins.set(path, origin)
    return value
  }

  /** The origin of a value, or of the value that it is part of. */
  of(path: string): string | null {
    for (
      let end = path.length;
      end > 0;
      end = Math.max(path.lastIndexOf('.', end - 1), path.lastIndexOf('[', end - 1))
    ) {
      const origin = this.#origins.get(path.slice(0, end))
      if (origin !== undefined) return origin
    }
    return null
  }
}
