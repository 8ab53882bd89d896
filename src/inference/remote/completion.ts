import { Automaton } from '../constraints/automaton.ts'
import type { Matcher } from '../constraints/matcher.ts'
import type { NodeData } from '../constraints/nodes.ts'
import { BYTES, END } from '../constraints/tokens/byte-trie.ts'
import type { EngineEvent, TextEvent, TokenLogProb } from '../contract/generation.ts'
import type { Repetition } from '../contract/repetition.ts'
import { ReplyText } from '../contract/reply-text.ts'
import type { Thought } from '../contract/work.ts'
import type { Printer } from './tokens/printer.ts'
import type { RatedToken, TokenRating } from './wire/wire.ts'

export interface CompletionPlace {
  readonly branch: number
  readonly index: number
  readonly maxTokens: number
  /** Detects repetition; null if repetition is allowed. */
  readonly repetition?: Repetition | null
  /** Number of likeliest tokens to report beside each token; null or absent for no log-probabilities. */
  readonly topLogProbs?: number | null
}

/** One completion as it arrives, and its events. */
export class Completion {
  readonly branch: number
  readonly index: number
  readonly maxTokens: number
  /** All its tokens so far. */
  readonly tokens: number[] = []
  /** Whether its `finish` was sent. */
  isFinished = false
  /** Whether the model is thinking. */
  #thinks = false
  readonly #repetition: Repetition | null
  readonly #topLogProbs: number | null
  readonly #printer: Printer
  readonly #emit: (event: EngineEvent) => void
  readonly #text: ReplyText
  #interrupted = false
  #ending: TokenLogProb | null = null
  /** Whether its thought has begun to repeat itself. */
  #isCircling = false
  /** Checks the text against its constraint; null if the server enforces it. */
  #matcher: Matcher | null = null

  constructor(
    { branch, index, maxTokens, repetition = null, topLogProbs = null }: CompletionPlace,
    printer: Printer,
    emit: (event: EngineEvent) => void,
  ) {
    this.branch = branch
    this.index = index
    this.maxTokens = maxTokens
    this.#repetition = repetition
    this.#topLogProbs = topLogProbs
    this.#printer = printer
    this.#emit = emit
    this.#text = new ReplyText({ branch, completion: index }, topLogProbs !== null)
  }

  /** Whether further output from the server is ignored. */
  get isSatisfied(): boolean {
    return this.isFinished || this.#isCircling
  }

  /** Number of tokens that it may still get. */
  get left(): number {
    return this.maxTokens - this.tokens.length
  }

  /**
   * From now on, its text ends before the first token that the grammar does not allow: it is then a prefix of an
   * allowed text.
   */
  follow(grammar: NodeData): void {
    this.#matcher = new Automaton(grammar, BYTES).createMatcher()
  }

  /** Its thought follows, until `endThought`. */
  think(): void {
    this.#thinks = true
  }

  /** @param ratings of the tokens; those without one were forced. */
  add(tokens: readonly number[], ratings: readonly TokenRating[] = []): void {
    if (this.isSatisfied) return
    const allowed = this.#matcher === null ? tokens : tokens.slice(0, this.#allowed(tokens))
    // Several tokens may arrive at once; those after the one that completes a repetition are dropped.
    const circle = allowed.findIndex((token) => this.#repetition?.push(token))
    const wanted = circle === -1 ? allowed : allowed.slice(0, circle + 1)
    for (const token of wanted) this.tokens.push(token)
    const most = this.#topLogProbs
    const logProbs = most === null ? [] : wanted.map((token, at) => this.#rated(token, ratings[at], most))
    const pieces = wanted.map((token) => this.#printer.bytes(token))
    this.#send(this.#text.push(pieces, logProbs))
    if (circle !== -1 && this.#thinks) this.#isCircling = true
    else if (circle !== -1 || allowed.length < tokens.length) this.finish('length')
  }

  /** Records the log-probabilities of the token that ends it. */
  endWith({ token, ...rating }: RatedToken): void {
    if (this.#topLogProbs !== null) this.#ending = this.#rated(token, rating, this.#topLogProbs)
  }

  #rated(token: number, rating: TokenRating | undefined, most: number): TokenLogProb {
    const { logProb, top } = rating ?? { logProb: 0, top: [{ token, logProb: 0 }] }
    const ranked = (one: number, logProb: number) => ({ ...this.#printer.describe(one), logProb })
    return { ...ranked(token, logProb), top: top.slice(0, most).map((other) => ranked(other.token, other.logProb)) }
  }

  /** The number of leading tokens that the constraint allows. */
  #allowed(tokens: readonly number[]): number {
    const stop = tokens.findIndex((token) => this.#printer.bytes(token).some((byte) => !this.#matcher!.accept(byte)))
    return stop === -1 ? tokens.length : stop
  }

  /**
   * Adds the missing part of the text that follows every thought.
   * @param budget token budget of the thought.
   * @param tokensOf returns the tokens of a trusted text.
   */
  async endThought(
    { end, closing }: Thought,
    budget: number,
    tokensOf: (text: string) => Promise<readonly number[]>,
  ): Promise<void> {
    this.#thinks = false
    this.#isCircling = false
    this.#repetition?.reset()
    const written = Buffer.concat(this.tokens.map((token) => this.#printer.bytes(token))).toString('latin1')
    const mark = latin1(end)
    const at = written.indexOf(mark)
    if (at === -1) {
      this.#interrupted = this.tokens.length >= budget
      // Half a character would corrupt the text after it.
      this.#text.cut()
      this.add((await tokensOf(closing)).slice(0, this.left))
      return
    }
    // The token that ends the mark may also contain text after it.
    const after = written.slice(at + mark.length)
    const separator = latin1(closing.slice(closing.indexOf(end) + end.length))
    if (!separator.startsWith(after) || separator === after) return
    const missing = Buffer.from(separator.slice(after.length), 'latin1').toString()
    this.add((await tokensOf(missing)).slice(0, this.left))
  }

  finish(given: 'stop' | 'length'): void {
    if (this.isFinished) return
    this.#send(this.#text.end())
    this.isFinished = true
    // A text that was cut off is a prefix of an allowed one.
    const isWhole = this.#matcher === null || this.#matcher.accept(END)
    const reason = isWhole ? given : 'length'
    this.#emit({
      type: 'finish',
      branch: this.branch,
      completion: this.index,
      reason,
      completionTokens: this.tokens.length,
      ...(this.#interrupted ? { thoughtInterrupted: true } : {}),
      ...(reason === 'stop' && this.#ending !== null ? { end: this.#ending } : {}),
    })
  }

  #send(event: TextEvent | null): void {
    if (event !== null) this.#emit(event)
  }
}

function latin1(text: string): string {
  return Buffer.from(text).toString('latin1')
}
