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
  /** The constraint on the text after the thought; null for free text. */
  readonly check: NodeData | null
  /** Whether the text is JSON, which the server may format in any way. */
  readonly isJson: boolean
}

interface TextPiece {
  readonly thought: string
  readonly text: string
  readonly logProbs?: readonly TokenLogProb[]
}

/**
 * One completion that arrives as text, and its events. Each piece counts as one token until the server reports counts.
 */
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
  /** Tokens since the last text event. */
  #silent = 0
  /** Log-probabilities of those tokens. */
  #silentLogProbs: TokenLogProb[] = []
  /** Whether to drop blanks before the reply: `closing` includes those that belong there. */
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

  /** Adds a piece with the log-probabilities of its tokens. An unrequested thought is dropped. */
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
    // A text that violates its constraint ends there, as a prefix of an allowed text.
    if (allowed.length < formed.length) this.finish('length')
  }

  /** Records the server's token counts. */
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

  /** The longest prefix that the constraint allows, in whole characters. */
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
