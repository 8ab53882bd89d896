/** Objects and lists that are nested more deeply are not read. */
export const DEEPEST = 200

/** Reads a notation from its beginning. */
export class NotationReader {
  protected readonly text: string
  protected at = 0

  constructor(text: string) {
    this.text = text
  }

  protected isAtEnd(): boolean {
    this.match(/\s*/y)
    return this.at === this.text.length
  }

  /** Accepts white space before the mark. */
  protected take(mark: string): boolean {
    const before = this.at
    this.match(/\s*/y)
    const isThere = this.text.startsWith(mark, this.at)
    this.at = isThere ? this.at + mark.length : before
    return isThere
  }

  /**
   * Reads items separated by commas, up to the mark that closes them.
   * @param mayTrail whether a comma may follow the last item.
   */
  protected items<Item>(close: string, read: () => Item | null, mayTrail: boolean): Item[] | null {
    const items: Item[] = []
    for (;;) {
      if (this.take(close)) return items
      if (items.length > 0 && !this.take(',')) return null
      if (mayTrail && items.length > 0 && this.take(close)) return items
      const item = read()
      if (item === null) return null
      items.push(item)
    }
  }

  /** @param pattern a sticky regular expression. */
  protected match(pattern: RegExp): string | null {
    pattern.lastIndex = this.at
    const found = pattern.exec(this.text)
    if (!found) return null
    this.at += found[0].length
    return found[0]
  }
}
