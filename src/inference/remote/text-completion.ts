import { Automaton } from '../constraints/automaton.ts'
import type { Matcher } from '../constraints/matcher.ts'
import type { NodeData } from '../constraints/nodes.ts'
import { BYTES, END } from '../constraints/tokens/byte-trie.ts'
import type { EngineEvent, TokenLogProb } from '../contract/generation.ts'
import type { Thought } from '../contract/work.ts'
import { JsonForm } from './openai/json-form.ts'

export interface TextRules {
  /** Present when the completion begins with a thought. */
  readonly thought: Thought | undefined
  /** What the text must follow behind the thought; null for free text. */
  readonly check: NodeData | null
  /** Whether it is JSON, which may come in any form. */
  readonly isJson: boolean
}

interface TextPiece {
  readonly thought: string
  readonly text: string
  readonly logProbs?: readonly TokenLogProb[]
}

/** One completion that comes as text, and its events. What comes at once counts as one token until the server has counted. */
export class TextCompletion {
  readonly branch: number
  readonly index: number
  /** Whether it has ended. */
  isSatisfied = false
  readonly #emit: (event: EngineEvent) => void
  readonly #matcher: Matcher | null
  readonly #form: JsonForm | null
  #thought: Thought | null
  #tokens = 0
  #reasoningTokens: number | null = null
  /** Tokens since the last text. */
  #silent = 0
  /** Log-probabilities of the tokens since then. */
  #silentLogProbs: TokenLogProb[] = []
  /** Whether blanks before the reply are left out: `closing` has those that belong there. */
  #atStart: boolean

  constructor(
    { branch, index }: { readonly branch: number; readonly index: number },
    { thought, check, isJson }: TextRules,
    emit: (event: EngineEvent) => void,
  ) {
    this.branch = branch
    this.index = index
    this.#emit = emit
    this.#thought = thought ?? null
    this.#atStart = thought !== undefined
    this.#matcher = check === null ? null : new Automaton(check, BYTES).createMatcher()
    this.#form = isJson ? new JsonForm() : null
  }

  /** Adds what came at once, with the log-probabilities of its tokens. A thought that was not asked for is left out. */
  add({ thought, text, logProbs = [] }: TextPiece): void {
    if (this.isSatisfied) return
    if (thought === '' && text === '') {
      this.#silentLogProbs.push(...logProbs)
      return
    }
    this.#tokens++
    this.#silent++
    if (this.#thought !== null) this.#send(thought, text === '' ? logProbs : [])
    if (text === '') return
    this.#endThought()
    this.#silentLogProbs.push(...logProbs)
    const reply = this.#atStart ? text.trimStart() : text
    this.#atStart &&= reply === ''
    const formed = this.#form?.push(reply) ?? reply
    const allowed = this.#matcher === null ? formed : this.#allowed(formed)
    this.#send(allowed)
    // A text that leaves what its constraint allows ends there: it is the beginning of an allowed one.
    if (allowed.length < formed.length) this.finish('length')
  }

  /** The server has counted its tokens. */
  counted(tokens: number, reasoningTokens: number | null): void {
    this.#tokens = tokens
    this.#reasoningTokens = reasoningTokens
  }

  finish(given: 'stop' | 'length'): void {
    if (this.isSatisfied) return
    if (given === 'stop') this.#endThought()
    this.isSatisfied = true
    const isWhole = this.#matcher === null || this.#matcher.accept(END)
    this.#emit({
      type: 'finish',
      branch: this.branch,
      completion: this.index,
      reason: isWhole ? given : 'length',
      completionTokens: this.#tokens,
      ...(this.#reasoningTokens === null ? {} : { reasoningTokens: this.#reasoningTokens }),
    })
  }

  #endThought(): void {
    if (this.#thought === null) return
    this.#send(this.#thought.closing)
    this.#thought = null
  }

  /** The beginning of a text that the constraint allows, in whole characters. */
  #allowed(text: string): string {
    let length = 0
    for (const character of text) {
      if (Buffer.from(character).some((byte) => !this.#matcher!.accept(byte))) break
      length += character.length
    }
    return text.slice(0, length)
  }

  #send(text: string, own: readonly TokenLogProb[] = []): void {
    if (text === '') return
    const logProbs = [...this.#silentLogProbs.splice(0), ...own]
    this.#emit({
      type: 'text',
      branch: this.branch,
      completion: this.index,
      text: text.toWellFormed(),
      tokens: Math.max(1, this.#silent),
      ...(logProbs.length === 0 ? {} : { logProbs }),
    })
    this.#silent = 0
  }
}
