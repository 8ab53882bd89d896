import type { Thought } from '../../contract/work.ts'
import type { Ask } from '../native/choice.ts'
import type { Model } from '../native/model.ts'
import type { FreeSampler, Rows, TokenSampler } from './sampler.ts'

/** Maximum bytes of a character; a token has at least one. */
const LONGEST_CHARACTER = 4

export interface ThoughtSamplerParts {
  readonly thought: Thought
  /** Limit of the completion. It leaves room for the end of the thought and one token of the reply, if possible. */
  readonly maxTokens: number
  readonly model: Pick<Model, 'tokenize' | 'piece' | 'isEndOfGeneration'>
  /** Samples the thought. */
  readonly free: Pick<FreeSampler, 'ask' | 'choose' | 'accept'>
  /** Samples the reply; may be the same. */
  readonly reply: TokenSampler
}

/**
 * Lets a model think freely until it ends its thought or the budget is used up, then hands over to the sampler of the reply.
 * The end of the thought is emitted token by token as if it were sampled.
 */
export class ThoughtSampler implements TokenSampler {
  readonly #parts: ThoughtSamplerParts
  /** The last bytes of the thought, one character per byte: enough to find the end mark. */
  #tail = ''
  readonly #end: string
  /** Budgets of the thought in tokens, without and with those that complete its last character. */
  readonly #budget: number
  readonly #most: number
  #thinking = true
  #tokens = 0
  /** Tokens still to be emitted. */
  #pending: number[] = []
  #interrupted = false
  #isEnded = false

  constructor(parts: ThoughtSamplerParts) {
    this.#parts = parts
    this.#end = bytesOf(parts.thought.end)
    const closing = parts.model.tokenize(parts.thought.closing, true).length
    this.#most = parts.maxTokens - closing - 1
    this.#budget = Math.min(parts.thought.budget, this.#most - (LONGEST_CHARACTER - 1))
  }

  get thoughtInterrupted(): boolean {
    return this.#interrupted
  }

  /** Assumes that the thought continues: if it ends within `ahead`, the answer is unused. */
  ask(ahead?: readonly number[]): Ask | null {
    if (this.#pending.length > 0) return null
    if (!this.#thinking) return this.#parts.reply.ask(ahead)
    return this.#isUsedUp() ? null : this.#parts.free.ask(ahead)
  }

  sample(rows: Rows, row: number): number {
    if (this.#pending.length > 0) return this.#writeNext()
    if (!this.#thinking) return this.#parts.reply.sample(rows, row)
    if (this.#isUsedUp()) {
      this.#interrupted = true
      return this.#close()
    }
    const token = this.#parts.free.choose(rows, row)
    // The end of the turn is not written, so it must not count either.
    if (this.#parts.model.isEndOfGeneration(token)) return this.#close()
    this.#parts.free.accept(token)
    this.#tokens++
    this.#read(token)
    return token
  }

  forced(most: number): readonly number[] {
    if (!this.#thinking && this.#pending.length === 0) return this.#parts.reply.forced?.(most) ?? []
    return Array.from({ length: Math.min(most, this.#pending.length) }, () => this.#writeNext())
  }

  endThought(): boolean {
    const goesOn = this.#thinking
    this.#isEnded = true
    return goesOn
  }

  /** A character that has begun may be completed. */
  #isUsedUp(): boolean {
    const over = this.#isEnded ? this.#tokens : this.#tokens - this.#budget
    return this.#tokens >= this.#most || over >= LONGEST_CHARACTER || (over >= 0 && !endsWithinCharacter(this.#tail))
  }

  #read(token: number): void {
    const { model, thought } = this.#parts
    this.#tail += Buffer.from(model.piece(token)).toString('latin1')
    const at = this.#tail.indexOf(this.#end)
    if (at === -1) {
      this.#tail = this.#tail.slice(-Math.max(this.#end.length - 1, LONGEST_CHARACTER))
      return
    }
    this.#thinking = false
    // The token that ends the mark may also contain text after it.
    const written = this.#tail.slice(at + this.#end.length)
    const separator = thought.closing.slice(thought.closing.indexOf(thought.end) + thought.end.length)
    const left = bytesOf(separator)
    if (left.startsWith(written)) this.#pend(Buffer.from(left.slice(written.length), 'latin1').toString())
  }

  #close(): number {
    this.#thinking = false
    this.#pend(this.#parts.thought.closing)
    return this.#writeNext()
  }

  #pend(text: string): void {
    if (text !== '') this.#pending = [...this.#parts.model.tokenize(text, true)]
  }

  #writeNext(): number {
    const token = this.#pending.shift()!
    this.#parts.free.accept(token)
    return token
  }
}

function bytesOf(text: string): string {
  return Buffer.from(text).toString('latin1')
}

/** Whether the text, in bytes, ends before the last byte of a character. */
function endsWithinCharacter(bytes: string): boolean {
  return /(?:[\xc0-\xff]|[\xe0-\xff][\x80-\xbf]|[\xf0-\xff][\x80-\xbf]{2})$/.test(bytes)
}
