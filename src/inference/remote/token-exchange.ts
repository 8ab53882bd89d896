import { randomUUID } from 'node:crypto'
import type { Constraint } from '../contract/constraint.ts'
import type { PromptPart } from '../contract/parts.ts'
import { createRepetition, type RepetitionLimits } from '../contract/repetition.ts'
import type { Thought } from '../contract/work.ts'
import { Completion } from './completion.ts'
import type { WrittenGrammar } from './constraint-worker.ts'
import type { AdmittedBranch, BranchRun, CompletionRun, Exchange } from './exchange.ts'
import {
  assemble,
  continued,
  joined,
  layOut,
  type PictureRule,
  type PromptLayout,
  type RemotePrompt,
} from './prompt.ts'
import { saltOf } from './salt.ts'
import { seededFor } from './seeded.ts'
import { chunked, TokenRater } from './token-rater.ts'
import type { Printer } from './tokens/printer.ts'
import type { TokenizerThreads } from './tokens/tokenizer-threads.ts'
import type { CompletionRequest, TokenWire, UsageEvent } from './wire/wire.ts'

export interface TokenExchangeParts {
  readonly wire: TokenWire
  readonly printer: Printer
  readonly tokenizer: TokenizerThreads
  /** The token that every prompt begins with; null for none. */
  readonly beginToken: number | null
  /** Tokens that end a reply. */
  readonly stopTokens: readonly number[]
  /** Limits on repetition; null for none. */
  readonly repetition: RepetitionLimits | null
  /** Null for a model that takes no pictures. */
  readonly pictures: PictureRule | null
  warn(message: string): void
}

/** A part of a completion that one request generates. */
interface Leg {
  readonly maxTokens: number
  readonly grammar: WrittenGrammar | null
  /** Ends a thought, after which the completion continues. Null for the last leg. */
  readonly stopText: string | null
}

/** Number of leading tokens of a prompt without pictures that choose its server. */
const KEY_TOKENS = 256

/** Prompts are tokenised here, and completions arrive as tokens. */
export class TokenExchange implements Exchange<RemotePrompt> {
  readonly wire: TokenWire
  readonly rater: TokenRater
  readonly #parts: TokenExchangeParts
  /** Prompts that were counted and may then be computed. */
  readonly #read = new WeakMap<readonly PromptPart[], Promise<RemotePrompt | null>>()

  constructor(parts: TokenExchangeParts) {
    this.#parts = parts
    this.wire = parts.wire
    this.rater = new TokenRater({
      wire: parts.wire,
      tokenizer: parts.tokenizer,
      stopTokens: parts.stopTokens,
      continued: (prompt, written) => this.#continued(prompt, written),
      note: (run, said, prompt) => this.#note(run, said, prompt),
    })
  }

  async read(
    prompts: readonly (readonly PromptPart[])[],
    params: readonly string[],
    organisation: string,
  ): Promise<readonly RemotePrompt[] | null> {
    const fresh = [...prompts.keys()].filter((index) => !this.#read.has(prompts[index]!))
    const reading = this.#readAll(
      fresh.map((index) => layOut(prompts[index]!, this.#parts.pictures !== null, params[index]!)),
      organisation,
    )
    for (const [at, index] of fresh.entries()) {
      const prompt = prompts[index]!
      const read = reading.then((all) => all?.[at] ?? null)
      this.#read.set(prompt, read)
      const forget = () => void this.#read.delete(prompt)
      read.then((tokens) => tokens ?? forget(), forget)
    }
    const all = await Promise.all(prompts.map((prompt) => this.#read.get(prompt)!))
    return all.includes(null) ? null : (all as RemotePrompt[])
  }

  /** @returns null if it takes too long. */
  async #readAll(layouts: readonly PromptLayout[], organisation: string): Promise<readonly RemotePrompt[] | null> {
    if (layouts.length === 0) return []
    const tokens = await this.#parts.tokenizer.encode(
      layouts.flatMap(({ texts }) => texts),
      organisation,
    )
    if (tokens === null) return null
    const salt = saltOf(organisation)
    let at = 0
    return layouts.map((layout) => {
      const own = tokens.slice(at, at + layout.texts.length)
      at += layout.texts.length
      return assemble(layout, own, this.#parts.pictures, salt)
    })
  }

  join(first: RemotePrompt, second: RemotePrompt): { readonly prompt: RemotePrompt; readonly countedTokens: number } {
    const begun = this.#begun(first, second)
    const prompt = joined(begun, second, this.#parts.pictures)
    return { prompt, countedTokens: begun.promptTokens + second.promptTokens }
  }

  beginningOf({ tokens, pictures }: RemotePrompt): string {
    return pictures[0]?.key ?? tokens.slice(0, KEY_TOKENS).join()
  }

  enforced(constraint: Constraint): Constraint {
    return constraint
  }

  async close(): Promise<void> {
    await this.#parts.tokenizer.close()
  }

  async run(branch: AdmittedBranch<RemotePrompt>, run: CompletionRun): Promise<void> {
    const { index, n, maxTokens, grammar, thought, sampling, topLogProbs = null } = branch
    const completions = Array.from({ length: n }, (_, number) => {
      const repetition = createRepetition(this.#parts.repetition, sampling)
      const place = { branch: index, index: number, maxTokens, repetition, topLogProbs }
      return new Completion(place, this.#parts.printer, run.emit)
    })
    if (maxTokens === 0) {
      for (const completion of completions) completion.finish('length')
      return
    }
    // A server computes no more completions of one request than it can compute at once. SGLang gives all of them the
    // same seed.
    const groups = chunked(completions, sampling.seed === undefined ? run.capacity : 1)
    await Promise.all(
      groups.map((group, number) => {
        const asked = { ...branch, sampling: seededFor(number, sampling) }
        return thought === undefined
          ? this.#ask(asked, group, { maxTokens, grammar, stopText: null }, run)
          : this.#think(asked, group, thought, run)
      }),
    )
  }

  /** Two legs: the thought is free text within its budget, and the constraint applies to the text after it. */
  async #think(
    branch: AdmittedBranch<RemotePrompt>,
    completions: readonly Completion[],
    thought: Thought,
    run: CompletionRun,
  ): Promise<void> {
    const { maxTokens, grammar } = branch
    const tokensOf = (text: string) => this.#tokensOf(text, run.organisation)
    const closing = await tokensOf(thought.closing)
    const budget = Math.min(thought.budget, maxTokens - closing.length - 1)
    for (const completion of completions) completion.think()
    if (budget > 0)
      await this.#ask(branch, completions, { maxTokens: budget, grammar: null, stopText: thought.end }, run)
    await Promise.all(
      completions.map(async (completion) => {
        await completion.endThought(thought, budget, tokensOf)
        if (completion.left <= 0) completion.finish('length')
        else await this.#ask(branch, [completion], { maxTokens: completion.left, grammar, stopText: null }, run)
      }),
    )
  }

  /** Requests completions that have the same tokens so far. */
  async #ask(
    { prompt, sampling, topLogProbs }: AdmittedBranch<RemotePrompt>,
    completions: readonly Completion[],
    { maxTokens, grammar, stopText }: Leg,
    run: CompletionRun,
  ): Promise<void> {
    const { wire } = this
    const { stopTokens } = this.#parts
    const before = completions[0]!.tokens
    const request: CompletionRequest = {
      maxTokens,
      stopText,
      grammar: grammar?.ebnf ?? null,
      id: `lookout-${randomUUID()}`,
      tokens: this.#continued(prompt, before),
      pictures: prompt.pictures,
      n: completions.length,
      sampling,
      stopTokens,
      cacheSalt: run.cacheSalt,
      whole: run.whole,
      topLogProbs: topLogProbs ?? null,
      ratedTokens: null,
    }
    if (grammar !== null && !grammar.exact) for (const completion of completions) completion.follow(grammar.graph)
    const isFirst = before.length === 0
    await run.ask({
      completions,
      isLast: stopText === null,
      send: (url, call) => wire.complete(url, request, call),
      add: (completion, piece) => {
        if (piece.type !== 'tokens') return
        completion.add(piece.tokens, piece.ratings)
        if (stopText === null && piece.ending !== undefined) completion.endWith(piece.ending)
      },
      note: (said) => {
        if (isFirst) this.#note(run, said, prompt)
      },
    })
  }

  #note({ usage }: BranchRun, { promptTokens, cachedTokens }: UsageEvent, { pictures }: RemotePrompt): void {
    if (cachedTokens !== null) usage.cachedTokens = Math.max(usage.cachedTokens, cachedTokens)
    if (promptTokens === usage.promptTokens) return
    const limits = 'its image processor has other limits than the card, so that places may be off'
    const reread = this.wire.rereads === null ? '' : 'it has tokenised the text again, or '
    const why = pictures.length > 0 ? `: ${reread}${limits}` : ''
    this.#parts.warn(`A prompt of ${usage.promptTokens} tokens had ${promptTokens} on the server${why}`)
  }

  /** The tokens of a prompt and of the text generated after it. */
  #continued(prompt: RemotePrompt, written: readonly number[]): readonly number[] {
    return written.length === 0 ? prompt.tokens : continued(prompt, written, this.#parts.pictures).tokens
  }

  /** Prepends the token that every prompt of the model must begin with, unless the template has written it. */
  #begun(prompt: RemotePrompt, next: RemotePrompt): RemotePrompt {
    const { beginToken } = this.#parts
    const first = prompt.tokens[0] ?? next.tokens[0]
    if (beginToken === null || first === undefined || first === beginToken) return prompt
    return { ...prompt, tokens: [beginToken, ...prompt.tokens], promptTokens: prompt.promptTokens + 1 }
  }

  async #tokensOf(text: string, organisation: string): Promise<readonly number[]> {
    const tokens = await this.#parts.tokenizer.encode([[{ text, trusted: true }]], organisation)
    if (tokens === null) throw new Error('A mark of the chat template could not be tokenised.')
    return Array.from(tokens[0]!)
  }
}
