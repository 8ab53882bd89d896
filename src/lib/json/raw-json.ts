/**
 * A member of an object in a JSON text, as written. JavaScript objects move integer-like keys to the front and lose the
 * spelling of numbers; the text keeps both. The functions below need text that `JSON.parse` accepts, and read it once.
 */
export interface RawMember {
  /** The decoded key. */
  readonly key: string
  /** The key as written, with its quotes. */
  readonly rawKey: string
  readonly value: string
  /** Where the value begins in the text. */
  readonly start: number
}

/** The members of an object in the order of the text, including duplicate keys; null for any other value. */
export function rawMembers(text: string): RawMember[] | null {
  const reader = new Reader(text)
  if (!reader.take('{')) return null
  const members: RawMember[] = []
  while (!reader.take('}')) {
    const rawKey = reader.value()
    reader.take(':')
    const value = reader.value()
    members.push({ key: JSON.parse(rawKey), rawKey, value, start: reader.at - value.length })
    reader.take(',')
  }
  return members
}

/** The items of an array; null for any other value. */
export function rawItems(text: string): string[] | null {
  const reader = new Reader(text)
  if (!reader.take('[')) return null
  const items: string[] = []
  while (!reader.take(']')) {
    items.push(reader.value())
    reader.take(',')
  }
  return items
}

/** The value of a key; null when there is none. The last of several wins, as in `JSON.parse`. */
export function rawMember(text: string, key: string): string | null {
  return rawMembers(text)?.findLast((member) => member.key === key)?.value ?? null
}

/** The text as `JSON.stringify` writes it, except for numbers and the order of keys, which are unchanged. */
export function compactJson(text: string): string {
  let compact = ''
  for (let at = 0; at < text.length; ) {
    const isString = text[at] === '"'
    const end = isString ? endOfString(text, at) : endOf(text, at)
    const piece = text.slice(at, end)
    if (isString && piece.includes('\\')) compact += JSON.stringify(JSON.parse(piece))
    else if (isString || !/\s/.test(piece[0]!)) compact += piece
    at = end
  }
  return compact
}

function endOf(text: string, at: number): number {
  BETWEEN.lastIndex = at
  BETWEEN.test(text)
  return BETWEEN.lastIndex
}

class Reader {
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  get at(): number {
    return this.#at
  }

  take(character: string): boolean {
    this.#skip(BLANKS)
    if (this.#text[this.#at] !== character) return false
    this.#at++
    return true
  }

  value(): string {
    this.#skip(BLANKS)
    const start = this.#at
    let depth = 0
    do {
      const character = this.#text[this.#at]
      if (character === undefined) break
      if (character === '"') {
        this.#at = endOfString(this.#text, this.#at)
        continue
      }
      this.#at++
      if (character === '{' || character === '[') depth++
      else if (character === '}' || character === ']') depth--
      else this.#skip(depth === 0 ? SCALAR : PLAIN)
    } while (depth > 0)
    return this.#text.slice(start, this.#at)
  }

  #skip(pattern: RegExp): void {
    pattern.lastIndex = this.#at
    pattern.test(this.#text)
    this.#at = Math.max(this.#at, pattern.lastIndex)
  }
}

const BETWEEN = /[ \t\n\r]+|[^" \t\n\r]+/y
const BLANKS = /[ \t\n\r]*/y
const SCALAR = /[^ \t\n\r,:\]}]*/y
const PLAIN = /[^"{}[\]]*/y

/**
 * The index after the closing quote of the string that begins at `start`, or the length of the text if there is none.
 */
export function endOfString(text: string, start: number): number {
  for (let from = start + 1; ; ) {
    const quote = text.indexOf('"', from)
    if (quote === -1) return text.length
    let before = quote
    while (text[before - 1] === '\\') before--
    if ((quote - before) % 2 === 0) return quote + 1
    from = quote + 1
  }
}
