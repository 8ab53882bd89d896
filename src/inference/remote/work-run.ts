import { randomUUID } from 'node:crypto'
import { type ApiError, internalError, modelOverloaded, tryAgainIn } from '../../lib/errors.ts'
import type { Branch, EngineEvent, PromptUsage, Thought } from '../engine.ts'
import { Completion } from './completion.ts'
import type { WrittenGrammar } from './constraint-worker.ts'
import { notSupported } from './constraint-writer.ts'
import type { RemotePrompt } from './prompt.ts'
import type { ModelServer } from './servers/server.ts'
import type { Place, Servers } from './servers/servers.ts'
import type { PromptText } from './tokens/hub-tokenizer.ts'
import type { Printer } from './tokens/printer.ts'
import { type CompletionRequest, type FailureKind, ServerFailure, type Wire } from './wire/wire.ts'

export interface WorkRunParts {
  readonly wire: Wire
  readonly servers: Servers
  readonly printer: Printer
  readonly tokenizer: {
    encode(groups: readonly (readonly PromptText[])[], organisation: string): Promise<readonly Int32Array[] | null>
  }
  /** Tokens that end a reply. */
  readonly stopTokens: readonly number[]
  warn(message: string): void
}

/** A branch that fits the model. */
export interface AdmittedBranch extends Omit<Branch, 'maxTokens'> {
  readonly index: number
  /** All of it, with the prefix. */
  readonly prompt: RemotePrompt
  readonly maxTokens: number
  /** Null for free text. */
  readonly grammar: WrittenGrammar | null
}

/** Usage that changes once the server has said what was in its cache. */
export type LiveUsage = { -readonly [Key in keyof PromptUsage]: PromptUsage[Key] }

export interface AdmittedWork {
  readonly organisation: string
  readonly cacheSalt: string
  /** What it shares with other work that should be on the same server. */
  readonly key: string
  readonly branches: readonly AdmittedBranch[]
  readonly usage: readonly LiveUsage[]
  /** Ends the work. */
  readonly signal: AbortSignal
  emit(event: EngineEvent): void
  /** Called when a completion has got a place on a server. */
  placed(): void
}

/** One request to a server. */
interface Leg {
  readonly maxTokens: number
  readonly grammar: WrittenGrammar | null
  /** Ends a thought, after which its completion goes on. Null for the last leg. */
  readonly stopText: string | null
}

/** Failures after which another server may do better, as long as nothing has come of the first. */
const RETRIED: readonly FailureKind[] = ['lost', 'busy', 'wrong']
const RETRY_SECONDS = 3

/** Runs the branches of one work on the servers. */
export class WorkRun {
  readonly #parts: WorkRunParts
  readonly #work: AdmittedWork
  /** Resolves when what the branches share can be found in the server's caches. */
  readonly #cached = Promise.withResolvers<void>()

  constructor(parts: WorkRunParts, work: AdmittedWork) {
    this.#parts = parts
    this.#work = work
  }

  /**
   * The first branch computes what all share. The others begin as soon as they find that in the server's cache.
   * @throws ApiError when the only branch fails, or the signal's reason.
   */
  async run(): Promise<void> {
    const [first, ...others] = this.#work.branches
    const leading = this.#runGuarded(first!).finally(this.#cached.resolve)
    await Promise.race([this.#cached.promise, leading])
    await Promise.all([leading, ...others.map((branch) => this.#runGuarded(branch))])
  }

  /** The failure of one branch of several ends no other. */
  async #runGuarded(branch: AdmittedBranch): Promise<void> {
    const { branches, emit, signal } = this.#work
    try {
      await this.#runBranch(branch)
    } catch (failure) {
      signal.throwIfAborted()
      const error = this.#errorOf(failure, branch)
      if (branches.length === 1) throw error
      emit({ type: 'error', branch: branch.index, error })
    }
  }

  async #runBranch(branch: AdmittedBranch): Promise<void> {
    const { index, n, maxTokens, grammar, thought } = branch
    const completions = Array.from(
      { length: n },
      (_, number) => new Completion({ branch: index, index: number, maxTokens }, this.#parts.printer, this.#work.emit),
    )
    if (maxTokens === 0) {
      for (const completion of completions) completion.finish('length')
      return
    }
    // A server computes no more completions of one request than it computes in all.
    const groups = chunked(completions, this.#parts.servers.capacity)
    await Promise.all(
      groups.map((group) =>
        thought === undefined
          ? this.#ask(branch, group, { maxTokens, grammar, stopText: null })
          : this.#think(branch, group, thought),
      ),
    )
  }

  /** Two legs: the thought is free text within its budget, and the constraint applies to what follows it. */
  async #think(branch: AdmittedBranch, completions: readonly Completion[], thought: Thought): Promise<void> {
    const { maxTokens, grammar } = branch
    const closing = await this.#tokensOf(thought.closing)
    const budget = Math.min(thought.budget, maxTokens - closing.length - 1)
    if (budget > 0) await this.#ask(branch, completions, { maxTokens: budget, grammar: null, stopText: thought.end })
    await Promise.all(
      completions.map(async (completion) => {
        await completion.endThought(thought, budget, (text) => this.#tokensOf(text))
        if (completion.left <= 0) completion.finish('length')
        else await this.#ask(branch, [completion], { maxTokens: completion.left, grammar, stopText: null })
      }),
    )
  }

  /** Asks a server for completions that have the same tokens so far; and another one, once, when nothing comes of that. */
  async #ask(branch: AdmittedBranch, completions: readonly Completion[], leg: Leg): Promise<void> {
    const { prompt, sampling } = branch
    const { signal, cacheSalt } = this.#work
    const before = completions[0]!.tokens
    const request: CompletionRequest = {
      maxTokens: leg.maxTokens,
      stopText: leg.stopText,
      grammar: leg.grammar?.ebnf ?? null,
      id: `lookout-${randomUUID()}`,
      tokens: before.length === 0 ? prompt.tokens : [...prompt.tokens, ...before],
      pictures: prompt.pictures,
      n: completions.length,
      sampling,
      stopTokens: this.#parts.stopTokens,
      cacheSalt,
    }
    const check = leg.grammar?.check ?? null
    if (check !== null) for (const completion of completions) completion.follow(check)
    const usage = before.length === 0 ? this.#work.usage[branch.index]! : null
    for (let avoid: ModelServer | undefined; ; ) {
      const place = await this.#place(completions.length, avoid)
      let hasBegun = false
      const seen = (type: 'cached' | 'tokens') => {
        if (branch.index === 0) this.#cached.resolve()
        hasBegun ||= type === 'tokens'
      }
      try {
        await this.#read(place.server, request, completions, { usage, seen })
        return
      } catch (error) {
        signal.throwIfAborted()
        if (!(error instanceof ServerFailure) || !RETRIED.includes(error.kind)) throw error
        void (error.kind === 'wrong' ? place.server.doubt() : place.server.check())
        if (hasBegun || avoid !== undefined) throw error
        this.#parts.warn(`${place.server.url} has failed a request, which is tried once more: ${error.message}`)
        avoid = place.server
      } finally {
        place.release()
      }
    }
  }

  async #place(count: number, avoid: ModelServer | undefined): Promise<Place> {
    const { organisation, key, branches, signal, placed } = this.#work
    const { servers } = this.#parts
    if (servers.up.length === 0) throw new ServerFailure('lost', 'no server can be used')
    const workCount = branches.reduce((sum, { n }) => sum + n, 0)
    const place = await servers.place({ organisation, key, count, workCount, avoid }, signal)
    placed()
    return place
  }

  async #read(
    server: ModelServer,
    request: CompletionRequest,
    completions: readonly Completion[],
    { usage, seen }: { readonly usage: LiveUsage | null; seen(type: 'cached' | 'tokens'): void },
  ): Promise<void> {
    const { lost } = server
    const signal = AbortSignal.any([this.#work.signal, lost])
    // What the server says of its cache comes after the last token, and belongs to the usage that the last end tells of.
    let last: () => void = () => {}
    try {
      for await (const event of this.#parts.wire.complete(server.url, request, signal)) {
        if (event.type === 'usage') {
          if (usage !== null) this.#note(usage, event, request)
          continue
        }
        seen(event.type)
        if (event.type === 'cached') continue
        const { end } = event
        const completion = completions[event.completion]!
        completion.add(event.tokens)
        const others = completions.filter((other) => other !== completion)
        const isLast = others.every(({ isFinished }) => isFinished)
        if (completion.isFinished && isLast) return
        if (end === null || request.stopText !== null) continue
        if (isLast) last = () => completion.finish(end)
        else completion.finish(end)
      }
      last()
    } catch (error) {
      if (lost.aborted && !this.#work.signal.aborted) throw lost.reason
      throw error
    }
  }

  #note(
    usage: LiveUsage,
    { promptTokens, cachedTokens }: { readonly promptTokens: number; readonly cachedTokens: number | null },
    { pictures }: CompletionRequest,
  ): void {
    if (cachedTokens !== null) usage.cachedTokens = Math.max(usage.cachedTokens, cachedTokens)
    if (promptTokens === usage.promptTokens) return
    const why =
      pictures.length > 0 ? ': its image processor has other limits than the card, so that places may be off' : ''
    this.#parts.warn(`A prompt of ${usage.promptTokens} tokens had ${promptTokens} on the server${why}`)
  }

  async #tokensOf(text: string): Promise<readonly number[]> {
    const tokens = await this.#parts.tokenizer.encode([[{ text, trusted: true }]], this.#work.organisation)
    if (tokens === null) throw new Error('A mark of the chat template could not be tokenised.')
    return Array.from(tokens[0]!)
  }

  #errorOf(failure: unknown, { constraint }: AdmittedBranch): Error {
    if (!(failure instanceof ServerFailure)) return failure as Error
    if (failure.kind === 'refused') return internalError(failure)
    if (failure.kind === 'grammar' && constraint !== undefined) {
      this.#parts.warn(`A constraint was refused: ${failure.message}`)
      return notSupported(constraint, 'the servers of this model cannot follow it')
    }
    if (failure.kind === 'busy') return unavailable('The servers of this model are overloaded.')
    return this.#parts.servers.up.length === 0 ? noServer() : unavailable('The server of this model has failed.')
  }
}

export function noServer(): ApiError {
  return unavailable('No server of this model can be used.')
}

function unavailable(message: string): ApiError {
  return modelOverloaded(`${message} ${tryAgainIn(RETRY_SECONDS)}`, RETRY_SECONDS)
}

function chunked<Item>(items: readonly Item[], size: number): Item[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, index) =>
    items.slice(index * size, (index + 1) * size),
  )
}
