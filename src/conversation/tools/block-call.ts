import { type CallReader, type CallStep, OPEN, REFUSED } from './syntax.ts'

export interface BlockCall {
  readonly name: string
  /** JSON text. */
  readonly arguments: string
}

interface BlockCallOptions {
  readonly end: string
  /** Whether the end mark after this text ends the call; by default the first one does. */
  readonly closes?: (text: string) => boolean
  /** @returns null for text that is not a call. */
  readonly translate: (text: string) => readonly BlockCall[] | null
}

/** Reads calls whose arguments are not JSON. They are translated once the call is complete. */
export class BlockCallReader implements CallReader {
  readonly #options: BlockCallOptions
  #text = ''
  #searched = 0

  constructor(options: BlockCallOptions) {
    this.#options = options
  }

  push(text: string): CallStep {
    const { end, closes, translate } = this.#options
    this.#text += text
    for (;;) {
      const at = this.#text.indexOf(end, this.#searched)
      if (at === -1) {
        this.#searched = Math.max(this.#searched, this.#text.length - end.length + 1)
        return OPEN
      }
      const block = this.#text.slice(0, at)
      this.#searched = at + 1
      if (closes && !closes(block)) continue
      const calls = translate(block)
      if (calls === null) return REFUSED
      return {
        events: calls.flatMap((call) => [
          { type: 'call', name: call.name },
          { type: 'arguments', text: call.arguments },
        ]),
        state: { ended: this.#text.slice(at + end.length) },
      }
    }
  }
}

/** Builds the JSON text of an object from JSON texts of its values. */
export function objectText(members: readonly (readonly [key: string, value: string])[]): string {
  return `{${members.map(([key, value]) => `${JSON.stringify(key)}: ${value}`).join(', ')}}`
}
