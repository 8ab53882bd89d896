import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import type { CountOptions, Engine, EngineState, ModelInfo, Numerics } from '../../src/inference/contract/engine.ts'
import type {
  Embedding,
  EngineEvent,
  Generation,
  Measurement,
  PromptUsage,
  RankedToken,
  ReadAnswer,
  Reading,
  TokenLogProb,
} from '../../src/inference/contract/generation.ts'
import { joinTexts } from '../../src/inference/contract/join-texts.ts'
import type { PromptPart } from '../../src/inference/contract/parts.ts'
import { TokenTally } from '../../src/inference/contract/token-tally.ts'
import type { Branch, EmbedWork, ReadQuestion, ReadWork, Work } from '../../src/inference/contract/work.ts'
import { CHATML } from '../../src/templates/chatml.ts'

export interface Script extends BranchScript {
  /** Delay before each piece. Running completions take turns. */
  readonly delayMs?: number
  /** Thrown instead of admitting the work. */
  readonly refusal?: Error | ((work: Work) => Error | undefined)
  /** What it waits for before it begins to read; nothing by default. */
  readonly begins?: Promise<void>
  /** Thrown instead of admitting questions to read. */
  readonly readRefusal?: Error
  /** Thrown after all other events. */
  readonly failure?: Error
  /** The cached tokens to report for each prompt; by default the prefix, for all branches but the first. */
  readonly cachedTokens?: number
  /**
   * Log-probabilities of the replies to a question, or an error that fails it alone; by default every reply is as likely as
   * the others, and they take a half together.
   */
  readonly read?: (question: ReadQuestion, index: number) => ReadResult | Promise<ReadResult>
  /** Overrides for a branch. */
  readonly branch?: (branch: Branch, index: number) => BranchScript
}

type ReadResult = readonly number[] | Error

export interface BranchScript {
  /** Texts that come at once, as one event; 1 by default. */
  readonly textsPerEvent?: number
  /** The reply, one event per piece. To those who ask for log-probabilities, each piece is a token. */
  readonly texts?: readonly string[] | ((completion: number) => readonly string[])
  /**
   * What else is likely in the place of a text, or of the end, which is an empty one, with log-probabilities; by default
   * something else that is twice as likely.
   * @param before the texts so far.
   */
  readonly alternatives?: (text: string, before: string) => readonly { readonly text: string; readonly mass: number }[]
  /** Whether the engine tells how likely the end was, where it tells that of texts; true by default. */
  readonly tellsEnd?: boolean
  /** Whether the engine does not tell how likely its texts are. */
  readonly isUnrated?: boolean
  /** Tokens per text; 1 by default. */
  readonly tokensPerText?: number
  /** Never finishes by itself. */
  readonly endless?: boolean
  readonly reason?: 'stop' | 'length'
  /** Reports that the reasoning was ended because it had used up its budget. */
  readonly thoughtInterrupted?: boolean
  /** Ends the branch after the texts of its first completion. */
  readonly error?: Error
}

interface Run {
  readonly work: Work
  readonly script: Script
  readonly signal: AbortSignal
  readonly tally: TokenTally
}

/** An engine for tests: it plays a script and records its work. */
export class FakeEngine implements Engine {
  readonly info: ModelInfo
  state: EngineState = 'ready'
  numerics: Numerics | null = null
  script: Script = { texts: ['Hello', ' there.'] }
  readonly works: Work[] = []
  readonly readWorks: ReadWork[] = []
  /** Works that were measured and not generated. */
  readonly measured: Work[] = []
  readonly signals: AbortSignal[] = []
  /** Abort reasons that reached a running generation. */
  readonly aborts: unknown[] = []
  /** Number of texts emitted so far. */
  emitted = 0
  /** Works whose events have begun, and have neither ended nor been left. */
  generating = 0

  constructor(info: Partial<ModelInfo> = {}) {
    this.info = {
      contextTokens: 32_768,
      longestTokenBytes: 16,
      chatTemplate: CHATML,
      bosToken: '',
      eosToken: '<|im_end|>',
      modalities: { image: true, audio: true },
      embeddingLength: 384,
      ...info,
    }
  }

  async generate(work: Work, signal: AbortSignal): Promise<Generation> {
    const script = this.script
    this.works.push(work)
    this.signals.push(signal)
    const prompts = this.#admit(work)
    const tally = new TokenTally()
    return tally.counting({ prompts, events: this.#events({ work, script, signal, tally }) })
  }

  /** Vectors whose first number is half the share of the inputs up to theirs. */
  async embed({ inputs }: EmbedWork, signal: AbortSignal): Promise<Embedding> {
    signal.throwIfAborted()
    const usage = { promptTokens: 3, imageTokens: 0, audioTokens: 0, cachedTokens: 0 }
    const vectors = (async function* () {
      for (const input of inputs.keys()) yield { input, vector: Float32Array.of((input + 1) / inputs.length / 2, 0) }
    })()
    return { prompts: inputs.map(() => usage), vectors }
  }

  async read(work: ReadWork, signal: AbortSignal): Promise<Reading> {
    signal.throwIfAborted()
    this.readWorks.push(work)
    this.signals.push(signal)
    const {
      refusal,
      readRefusal,
      read = ({ replies }) => replies.map(() => Math.log(0.5 / replies.length)),
    } = this.script
    if (readRefusal) throw readRefusal
    if (refusal instanceof Error) throw refusal
    const prompts = this.#admitted(work.prefix, work.questions)
    return { prompts, answers: this.#answers(work, read, signal) }
  }

  /** The last question is answered first. */
  async *#answers(
    { questions, onBegun }: ReadWork,
    read: NonNullable<Script['read']>,
    signal: AbortSignal,
  ): AsyncGenerator<ReadAnswer, void, void> {
    const { delayMs, failure, begins } = this.script
    if (begins !== undefined) await Promise.race([begins, once(signal, 'abort')])
    signal.throwIfAborted()
    onBegun?.()
    for (const [question, asked] of [...questions.entries()].reverse()) {
      if (delayMs !== undefined) await delay(delayMs, null, { signal }).catch(() => {})
      signal.throwIfAborted()
      if (failure) throw failure
      const logProbs = await read(asked, question)
      yield logProbs instanceof Error ? { question, error: logProbs } : { question, logProbs }
    }
  }

  async measure(work: Work, signal: AbortSignal): Promise<Measurement> {
    signal.throwIfAborted()
    this.measured.push(work)
    return { prompts: this.#admit(work), exact: true }
  }

  #admit(work: Work): PromptUsage[] {
    const { refusal } = this.script
    const error = typeof refusal === 'function' ? refusal(work) : refusal
    if (error) throw error
    return this.#admitted(work.prefix, work.branches)
  }

  #admitted(parts: readonly PromptPart[], branches: readonly { readonly suffix: readonly PromptPart[] }[]) {
    const { cachedTokens } = this.script
    const prefix = this.#count(parts)
    return branches.map(
      ({ suffix }, index): PromptUsage => ({
        promptTokens: prefix + this.#count(suffix),
        imageTokens: 0,
        audioTokens: 0,
        cachedTokens: cachedTokens ?? (index === 0 ? 0 : prefix),
      }),
    )
  }

  async *#events({ work, script, signal, tally }: Run): AsyncGenerator<EngineEvent, void, void> {
    let running = work.branches.flatMap((branch, index) => {
      const own = { ...script, ...script.branch?.(branch, index) }
      return Array.from({ length: branch.n }, (_, completion) => new Player(own, branch, index, completion))
    })
    this.generating++
    try {
      while (running.length > 0) {
        for (const player of running) {
          if (!running.includes(player)) continue
          if (player.hasText) {
            await delay(script.delayMs ?? 0, null, { signal }).catch(() => {})
            signal.throwIfAborted()
            this.emitted++
          }
          const event = player.next()
          if (event.type !== 'text' && script.failure && running.length === 1) throw script.failure
          tally.add([event])
          yield event
          if (event.type === 'finish') running = running.filter((other) => other !== player)
          if (event.type === 'error') running = running.filter((other) => other.branch !== event.branch)
        }
      }
    } catch (error) {
      if (signal.aborted) this.aborts.push(signal.reason)
      throw error
    } finally {
      this.generating--
    }
  }

  /** Counts one token per character of text, and 64 per media part. */
  async countTokens(parts: readonly PromptPart[], options?: CountOptions): Promise<number> {
    options?.signal.throwIfAborted()
    return this.#count(parts)
  }

  #count(parts: readonly PromptPart[]): number {
    return parts.reduce((sum, part) => sum + (part.type === 'text' ? part.text.length : 64), 0)
  }

  async close(): Promise<void> {
    this.state = 'closed'
  }
}

/** A token that prints nothing has a name. */
function rankedOf(text: string, mass: number): RankedToken {
  return { text: text === '' ? '<|im_end|>' : text, bytes: [...Buffer.from(text)], logProb: Math.log(mass) }
}

type Alternatives = ReturnType<NonNullable<BranchScript['alternatives']>>

function logProbOf(text: string, mass: number, others: Alternatives, most: number): TokenLogProb {
  const chosen = rankedOf(text, mass)
  const ranked = [chosen, ...others.map((other) => rankedOf(other.text, other.mass))]
  return { ...chosen, top: ranked.sort((a, b) => b.logProb - a.logProb).slice(0, most) }
}

const LIKELIER = [{ text: 'other', mass: 2 / 3 }]

/** Plays the script of one completion. */
class Player {
  readonly branch: number
  readonly #topLogProbs: number | undefined
  readonly #completion: number
  readonly #script: BranchScript
  readonly #texts: readonly string[]
  #emitted = 0
  #before = ''

  constructor(script: BranchScript, { topLogProbs }: Branch, branch: number, completion: number) {
    const texts = script.texts ?? ['Hello', ' there.']
    this.branch = branch
    this.#topLogProbs = topLogProbs
    this.#completion = completion
    this.#script = script
    this.#texts = typeof texts === 'function' ? texts(completion) : texts
  }

  get hasText(): boolean {
    return this.#script.endless === true || this.#emitted < this.#texts.length
  }

  next(): EngineEvent {
    let event = this.#next()
    for (let left = this.#script.textsPerEvent ?? 1; --left > 0 && event.type === 'text' && this.hasText; ) {
      event = joinTexts(event, this.#next())!
    }
    return event
  }

  #next(): EngineEvent {
    const at = { branch: this.branch, completion: this.#completion }
    if (this.hasText) {
      const text = this.#texts[this.#emitted++ % this.#texts.length]!
      const rated = this.#rate(text)
      const logProbs = rated === undefined ? {} : { logProbs: [rated] }
      this.#before += text
      return { type: 'text', ...at, text, tokens: this.#script.tokensPerText ?? 1, ...logProbs }
    }
    if (this.#script.error) return { type: 'error', branch: this.branch, error: this.#script.error }
    const { reason = 'stop', thoughtInterrupted = false } = this.#script
    const finish = {
      type: 'finish',
      ...at,
      reason,
      completionTokens: this.#emitted * (this.#script.tokensPerText ?? 1),
    } as const
    const end = reason === 'stop' && this.#script.tellsEnd !== false ? this.#rate('') : undefined
    return { ...finish, ...(thoughtInterrupted ? { thoughtInterrupted } : {}), ...(end === undefined ? {} : { end }) }
  }

  #rate(text: string): TokenLogProb | undefined {
    const { alternatives, isUnrated = false } = this.#script
    if (this.#topLogProbs === undefined || isUnrated) return undefined
    const others = alternatives?.(text, this.#before)
    if (others === undefined) return logProbOf(text, 1 / 3, LIKELIER, this.#topLogProbs)
    const left = others.reduce((rest, { mass }) => rest - mass, 1)
    return logProbOf(text, left, others, this.#topLogProbs)
  }
}
