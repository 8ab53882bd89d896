/** Where text is, in UTF-16 units. */
interface Span {
  readonly start: number
  readonly end: number
}

/** A value of a JSON text: where it is, and where its name is, if it has one. */
export interface JsonPlace extends Span {
  readonly key: Span | null
}

/** Text that is not JSON. The message fits behind "Line 3:". */
export class JsonTextError extends Error {
  override readonly name = 'JsonTextError'
  readonly offset: number

  constructor(message: string, offset: number) {
    super(message)
    this.offset = offset
  }
}

export interface JsonText {
  readonly value: unknown
  /** All values by their path, as the server's errors write it: `.properties.size.enum[0]`; the whole text is ``. */
  readonly places: ReadonlyMap<string, JsonPlace>
}

const DEEPEST = 200

/** Reads JSON and notes where its values are. @throws JsonTextError */
export function readJson(text: string): JsonText {
  const reader = new Reader(text)
  reader.read()
  return { value: JSON.parse(text) as unknown, places: reader.places }
}

/**
 * The place that a path means: that of the value, or else of the innermost value around it that is there.
 * @param path may lead further than the text does.
 */
export function placeOf({ places }: JsonText, path: string): JsonPlace {
  const exact = places.get(path)
  if (exact) return exact
  let [found, length] = [places.get('')!, 0]
  for (const [known, place] of places) {
    if (known.length > length && path.startsWith(known) && /^[.[]/.test(path.slice(known.length))) {
      found = place
      length = known.length
    }
  }
  return found
}

/** @returns both from 1. */
export function lineAndColumn(text: string, offset: number): { readonly line: number; readonly column: number } {
  const before = text.slice(0, offset).split('\n')
  return { line: before.length, column: before.at(-1)!.length + 1 }
}

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y
const ESCAPED = /["\\/bfnrt]|u[0-9a-fA-F]{4}/y
const WORD = /[a-zA-Z_$][\w$]*/y

class Reader {
  readonly places = new Map<string, JsonPlace>()
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  read(): void {
    this.#blanks()
    this.#value('', null, 0)
    this.#blanks()
    if (this.#at < this.#text.length) this.#fail('there is text after the end of the value')
  }

  #value(path: string, key: Span | null, depth: number): void {
    if (depth > DEEPEST) this.#fail('the values are nested too deeply')
    const start = this.#at
    // Its place in the list is that of where it begins, so that outer values come first.
    this.places.delete(path)
    this.places.set(path, { start, end: start, key })
    const first = this.#text[start]
    if (first === '{') this.#object(path, depth)
    else if (first === '[') this.#array(path, depth)
    else if (first === '"') this.#string()
    else this.#simple()
    this.places.set(path, { start, end: this.#at, key })
  }

  #object(path: string, depth: number): void {
    this.#at++
    this.#blanks()
    if (this.#takes('}')) return
    for (;;) {
      const start = this.#at
      if (this.#text[start] !== '"') this.#fail("expected a name in double quotes, or '}'")
      const name = JSON.parse(this.#string()) as string
      const key = { start, end: this.#at }
      this.#blanks()
      if (!this.#takes(':')) this.#fail("expected ':' after the name")
      this.#blanks()
      this.#value(`${path}.${name}`, key, depth + 1)
      this.#blanks()
      if (this.#takes('}')) return
      if (!this.#takes(',')) this.#fail("expected ',' or '}'")
      this.#blanks()
      if (this.#text[this.#at] === '}') this.#fail("a ',' before '}' is not allowed", this.#lastComma())
    }
  }

  #array(path: string, depth: number): void {
    this.#at++
    this.#blanks()
    if (this.#takes(']')) return
    for (let index = 0; ; index++) {
      this.#value(`${path}[${index}]`, null, depth + 1)
      this.#blanks()
      if (this.#takes(']')) return
      if (!this.#takes(',')) this.#fail("expected ',' or ']'")
      this.#blanks()
      if (this.#text[this.#at] === ']') this.#fail("a ',' before ']' is not allowed", this.#lastComma())
    }
  }

  /** @returns the string as it is written. */
  #string(): string {
    const start = this.#at++
    for (;;) {
      const character = this.#text[this.#at]
      if (character === undefined || character === '\n') this.#fail('the string is not closed', start)
      if (character < ' ') this.#fail('the string contains a control character')
      this.#at++
      if (character === '"') return this.#text.slice(start, this.#at)
      if (character !== '\\') continue
      const escaped = this.#match(ESCAPED)
      if (escaped === null) this.#fail("'\\' is not followed by an escape", this.#at - 1)
      this.#at += escaped.length
    }
  }

  #simple(): void {
    const number = this.#match(NUMBER)
    if (number !== null) {
      this.#at += number.length
      if (/[\w.]/.test(this.#text[this.#at] ?? '')) this.#fail('this is not a JSON number')
      return
    }
    const word = this.#match(WORD)
    if (word === 'true' || word === 'false' || word === 'null') {
      this.#at += word.length
      return
    }
    if (this.#at >= this.#text.length) this.#fail('the text ends where a value is expected')
    if (word !== null) this.#fail(`expected a value; text needs double quotes: "${word}"`)
    if (this.#text[this.#at] === "'") this.#fail('text needs double quotes')
    this.#fail('expected a value')
  }

  #match(pattern: RegExp): string | null {
    pattern.lastIndex = this.#at
    return pattern.exec(this.#text)?.[0] ?? null
  }

  #takes(character: string): boolean {
    if (this.#text[this.#at] !== character) return false
    this.#at++
    return true
  }

  #blanks(): void {
    while (/[ \t\r\n]/.test(this.#text[this.#at] ?? '')) this.#at++
  }

  #lastComma(): number {
    return this.#text.lastIndexOf(',', this.#at)
  }

  #fail(message: string, at = this.#at): never {
    throw new JsonTextError(message, at)
  }
}
