/**
 * Reformats JSON that arrives in pieces as this server writes it: with `, ` and `: ` between its parts, and no other
 * blanks outside strings.
 */
export class JsonForm {
  #inString = false
  #isEscaped = false

  push(text: string): string {
    let written = ''
    for (const character of text) {
      if (this.#inString) {
        written += character
        if (this.#isEscaped) this.#isEscaped = false
        else if (character === '\\') this.#isEscaped = true
        else if (character === '"') this.#inString = false
        continue
      }
      if (BLANKS.includes(character)) continue
      this.#inString = character === '"'
      written += character === ',' || character === ':' ? `${character} ` : character
    }
    return written
  }
}

const BLANKS = ' \t\n\r'
