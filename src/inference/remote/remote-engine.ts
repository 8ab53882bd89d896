import { type ApiError, invalidRequest, modelOverloaded, tryAgainIn } from '../../lib/errors/errors.ts'
import { cannotRead } from '../contract/cannot-read.ts'
import { lengthProblem, promptProblem } from '../contract/context-length.ts'
import type { CountOptions, Engine, EngineState, ModelInfo } from '../contract/engine.ts'
import { EventQueue } from '../contract/event-queue.ts'
import type { EngineEvent, Generation, Measurement, PromptUsage, ReadAnswer, Reading } from '../contract/generation.ts'
import { GREEDY } from '../contract/greedy.ts'
import { joinTexts } from '../contract/join-texts.ts'
import type { PromptPart } from '../contract/parts.ts'
import { growTrees, type ReplyTree } from '../contract/reply-tree.ts'
import type { EngineStats } from '../contract/stats.ts'
import { TokenTally } from '../contract/token-tally.ts'
import type { ReadWork, Work } from '../contract/work.ts'
import type { ConstraintWriter } from './constraint-writer.ts'
import type { AdmittedBranch, BranchRun, Exchange, LiveUsage, ReadPrompt, ReplyRater } from './exchange.ts'
import { saltOf } from './salt.ts'
import type { ServerLoad } from './wire/wire.ts'
import { noServer, WorkRun, type WorkRunParts } from './work-run.ts'

export interface RemoteEngineParts<Prompt extends ReadPrompt> extends WorkRunParts {
  readonly exchange: Exchange<Prompt>
  readonly info: ModelInfo
  readonly constraints: ConstraintWriter
  /** Maximum requests that wait for their first completion to start. */
  readonly maxWaiting: number
}

interface AdmittedPrompts<Prompt extends ReadPrompt> {
  readonly branches: readonly AdmittedBranch<Prompt>[]
  /** Prompt tokens that all branches share, which a server has cached once it has computed one branch. */
  readonly sharedTokens: number
}

/** What the servers do for a request. */
interface Task<Prompt extends ReadPrompt, Event> {
  /** Number of requests to the servers. */
  readonly requests: number
  /** Whether completions are read only at their end. */
  readonly whole: boolean
  admit(): Promise<AdmittedPrompts<Prompt>>
  join(last: Event, next: Event): Event | null
  /** The error if the servers refuse to return log-probabilities. */
  unrated(): ApiError
  perform(branch: AdmittedBranch<Prompt>, run: BranchRun, emit: (event: Event) => void): Promise<void>
  /** The event for the failure of one of several branches. */
  failed(branch: AdmittedBranch<Prompt>, error: Error): Event
  /** Completion tokens so far. */
  decoded(): number
}

/** The parameter that requests log-probabilities. */
const LOG_PROBS_PARAM = 'logprobs'
const NO_LIMITS = { nodes: Number.POSITIVE_INFINITY, leaves: Number.POSITIVE_INFINITY }
/** Default of the input that errors name. */
const DEFAULT_PARAM = 'messages'
const METRICS_MS = 2_000
/** The load of a server that reports none. */
const NO_LOAD: ServerLoad = { running: 0, waiting: 0, kvUsage: 0, kvTokens: 0, preemptions: 0 }

/**
 * A model that another engine's servers run. Prompts, constraints, thoughts and places are handled here; the servers
 * compute tokens.
 */
export class RemoteEngine<Prompt extends ReadPrompt> implements Engine {
  readonly info: ModelInfo
  readonly #parts: RemoteEngineParts<Prompt>
  readonly #closing = new AbortController()
  #waiting = 0
  readonly #counters = { prefilled: 0, reused: 0, hits: 0, misses: 0, decoded: 0 }

  /** Absent if the servers do not report the probabilities of given tokens. */
  readonly read?: (work: ReadWork, signal: AbortSignal) => Promise<Reading>

  constructor(parts: RemoteEngineParts<Prompt>) {
    this.#parts = parts
    this.info = parts.info
    const { rater } = parts.exchange
    if (rater !== undefined) this.read = (work, signal) => this.#read(rater, work, signal)
  }

  get state(): EngineState {
    if (this.#closing.signal.aborted) return 'closed'
    return this.#parts.servers.up.length > 0 ? 'ready' : 'restarting'
  }

  async generate(work: Work, signal: AbortSignal): Promise<Generation> {
    const tally = new TokenTally()
    const fingerprints = new Set<string>()
    const { usage, events } = await this.#start<EngineEvent>(work, signal, {
      requests: work.branches.reduce((sum, { n }) => sum + n, 0),
      admit: () => this.#admit(work, signal),
      join: joinTexts,
      whole: work.whole === true,
      unrated: () => invalidRequest('The servers of this model give no log-probabilities.', LOG_PROBS_PARAM),
      perform: (branch, run, emit) =>
        this.#parts.exchange.run(branch, {
          ...run,
          emit: (event) => {
            tally.add([event])
            emit(event)
          },
          identified: (fingerprint) => fingerprints.add(fingerprint),
        }),
      failed: ({ index }, error) => ({ type: 'error', branch: index, error }),
      decoded: () => tally.tokens,
    })
    return {
      ...tally.counting({ prompts: usage, events }),
      fingerprint: () => (fingerprints.size === 1 ? [...fingerprints][0]! : null),
    }
  }

  async #read(rater: ReplyRater<Prompt>, work: ReadWork, signal: AbortSignal): Promise<Reading> {
    const { organisation, prefix, questions } = work
    let trees: readonly ReplyTree[] = []
    const admit = async () => {
      const replies = await rater.tokensOf(work)
      signal.throwIfAborted()
      if (replies === null)
        throw invalidRequest('The replies take too long to tokenise.', questions[0]?.param ?? DEFAULT_PARAM)
      trees = replies.map((tokens, index) => growTrees(tokens, NO_LIMITS, questions[index]!.goesOn)[0]!)
      const branches = questions.map(({ replies: _, goesOn: _goesOn, ...question }, index) => {
        const { nodes } = trees[index]!
        const maxTokens = nodes.reduce((most, { depth }) => Math.max(most, depth + 1), 1)
        return { ...question, n: 1 + nodes.length, maxTokens, sampling: GREEDY }
      })
      return this.#admit({ organisation, prefix, branches }, signal)
    }
    const { usage, events } = await this.#start<ReadAnswer>(work, signal, {
      requests: questions.length,
      admit,
      join: () => null,
      whole: true,
      unrated: cannotRead,
      perform: async (question, run, emit) => {
        emit({ question: question.index, logProbs: await rater.rate(trees[question.index]!, question, run) })
      },
      failed: ({ index }, error) => ({ question: index, error }),
      decoded: () => 0,
    })
    return { prompts: usage, answers: events }
  }

  /** Admits work and runs it. */
  async #start<Event>(
    work: Pick<Work, 'organisation' | 'priority' | 'isTransient' | 'onBegun' | 'trace'>,
    signal: AbortSignal,
    { requests, admit, join, whole, unrated, perform, failed, decoded }: Task<Prompt, Event>,
  ): Promise<{ readonly usage: readonly LiveUsage[]; readonly events: EventQueue<Event> }> {
    const { organisation, priority, onBegun, trace } = work
    signal.throwIfAborted()
    this.#checkReady()
    const { servers, maxWaiting } = this.#parts
    if (this.#waiting >= maxWaiting) {
      const seconds = Math.max(1, servers.secondsUntilPlaces(requests))
      throw modelOverloaded(`The model is overloaded. ${tryAgainIn(seconds)}`, seconds)
    }
    this.#waiting++
    let waits = true
    const placed = () => {
      if (waits) this.#waiting--
      waits = false
    }
    try {
      const { branches, sharedTokens } = await admit()
      const usage = usageOf(branches, sharedTokens)
      const left = new AbortController()
      const leave = () => left.abort(new Error('The reader of the events has left.'))
      const queue = new EventQueue<Event>(leave, join)
      const emit = (event: Event) => queue.push([event])
      const run = new WorkRun(this.#parts, {
        organisation,
        cacheSalt: saltOf(organisation),
        // Requests with the same picture, or with the same beginning, go to the server that has it cached.
        key: `${organisation} ${this.#parts.exchange.beginningOf(branches[0]!.prompt, organisation)}`,
        branches,
        usage,
        whole,
        priority,
        trace,
        signal: AbortSignal.any([signal, left.signal, this.#closing.signal]),
        placed: () => {
          if (waits) onBegun?.()
          placed()
        },
        unrated,
        perform: (branch, run) => perform(branch, run, emit),
        failed: (branch, error) => emit(failed(branch, error)),
      })
      const fail = () => queue.fail(signal.reason)
      signal.addEventListener('abort', fail, { once: true })
      void run
        .run()
        .then(
          () => queue.end(),
          (error) => queue.fail(signal.aborted ? signal.reason : error),
        )
        .finally(() => {
          placed()
          signal.removeEventListener('abort', fail)
          this.#count(usage, decoded(), work)
        })
      return { usage, events: queue }
    } catch (error) {
      placed()
      throw error
    }
  }

  async countTokens(parts: readonly PromptPart[], { organisation, signal }: CountOptions): Promise<number> {
    signal.throwIfAborted()
    if (this.#isTooLong(parts)) return Number.POSITIVE_INFINITY
    const [prompt] = (await this.#parts.exchange.read([parts], [DEFAULT_PARAM], organisation)) ?? []
    signal.throwIfAborted()
    return prompt === undefined ? Number.POSITIVE_INFINITY : prompt.promptTokens
  }

  /** No server is involved. */
  async measure(work: Work, signal: AbortSignal): Promise<Measurement> {
    signal.throwIfAborted()
    const { branches, sharedTokens } = await this.#admit(work, signal)
    return { prompts: usageOf(branches, sharedTokens), exact: this.info.estimatesTokens !== true }
  }

  async stats(): Promise<EngineStats> {
    this.#checkReady()
    const { exchange, servers } = this.#parts
    const loads = await Promise.all(
      servers.up.map(({ url, load }) =>
        exchange.wire.load(url, AbortSignal.timeout(METRICS_MS)).catch(() => ({ ...NO_LOAD, running: load })),
      ),
    )
    const sum = (of: (load: ServerLoad) => number) => loads.reduce((total, load) => total + of(load), 0)
    const { prefilled, reused, hits, misses, decoded } = this.#counters
    return {
      running: sum(({ running }) => running),
      waiting: this.#waiting + sum(({ waiting }) => waiting),
      totalCells: sum(({ kvTokens }) => kvTokens),
      usedCells: Math.round(sum(({ kvTokens, kvUsage }) => kvTokens * kvUsage)),
      usedSequences: sum(({ running }) => running),
      prefilledTokens: prefilled,
      reusedTokens: reused,
      prefixHits: hits,
      prefixMisses: misses,
      decodedTokens: decoded,
      preemptions: sum(({ preemptions }) => preemptions),
    }
  }

  async close(): Promise<void> {
    const { servers, exchange, constraints } = this.#parts
    const reason = modelOverloaded('The service is shutting down.', 1)
    this.#closing.abort(reason)
    servers.failWaiting(reason)
    for (const server of servers.all) server.close()
    await Promise.all([exchange.wire.close(), exchange.close?.(), constraints.close()])
  }

  #checkReady(): void {
    this.#closing.signal.throwIfAborted()
    if (this.#parts.servers.up.length === 0) throw noServer()
  }

  /** @throws ApiError 400 for a branch that does not fit, or that needs something that the model does not support. */
  async #admit({ organisation, prefix, branches }: Work, signal: AbortSignal): Promise<AdmittedPrompts<Prompt>> {
    const { exchange, constraints, info } = this.#parts
    const params = branches.map(({ param }) => param ?? DEFAULT_PARAM)
    const [longest] = branches.filter(({ suffix }) => this.#isTooLong([...prefix, ...suffix]))
    if (longest !== undefined) throw endless(info, longest.param)
    const prompts = await exchange.read(
      [prefix, ...branches.map(({ suffix }) => suffix)],
      [params[0] ?? DEFAULT_PARAM, ...params],
      organisation,
    )
    signal.throwIfAborted()
    if (prompts === null) throw endless(info, params[0])
    const [shared, ...suffixes] = prompts
    const admitted = await Promise.all(
      branches.map(async (branch, index): Promise<AdmittedBranch<Prompt>> => {
        const { prompt, countedTokens } = exchange.join(shared!, suffixes[index]!)
        if (prompt.promptTokens === 0) throw invalidRequest('The prompt is empty.', params[index]!)
        if (!info.estimatesTokens) {
          // A client could not have counted the tokens that joining adds: they reduce those left for the completion.
          checkLength(countedTokens, branch.maxTokens, info, params[index]!)
          checkLength(prompt.promptTokens, null, info, params[index]!)
        }
        const unrated = branch.topLogProbs === undefined ? null : exchange.wire.logProbProblem(branch.sampling)
        if (unrated !== null) throw invalidRequest(unrated, LOG_PROBS_PARAM)
        const enforced = branch.constraint === undefined ? null : exchange.enforced(branch.constraint)
        const grammar = enforced === null ? null : await constraints.write(enforced, organisation)
        const left = Math.max(1, info.contextTokens - prompt.promptTokens)
        const most = branch.maxTokens ?? left
        const maxTokens = info.estimatesTokens ? most : Math.min(most, left)
        return { ...branch, index, prompt, maxTokens, grammar }
      }),
    )
    // A branch without a suffix computes the last token of the prefix.
    const borrowed = suffixes.some(({ promptTokens }) => promptTokens === 0) ? 1 : 0
    // Servers that count themselves report cached tokens only later.
    const sharedTokens = info.estimatesTokens ? 0 : Math.max(0, shared!.promptTokens - borrowed)
    return { branches: admitted, sharedTokens }
  }

  /** Whether the texts are longer than any that can fit. */
  #isTooLong(parts: readonly PromptPart[]): boolean {
    const bytes = parts.reduce((sum, part) => sum + (part.type === 'text' ? Buffer.byteLength(part.text) : 0), 0)
    return bytes > this.info.contextTokens * this.info.longestTokenBytes
  }

  #count(usage: readonly PromptUsage[], decoded: number, { isTransient }: Pick<Work, 'isTransient'>): void {
    const counters = this.#counters
    for (const { promptTokens, cachedTokens } of usage) {
      counters.prefilled += promptTokens - cachedTokens
      counters.reused += cachedTokens
      if (isTransient) continue
      if (cachedTokens > 0) counters.hits++
      else counters.misses++
    }
    counters.decoded += decoded
  }
}

/** The first branch is charged for the prefill that the others share. */
function usageOf(branches: readonly AdmittedBranch<ReadPrompt>[], sharedTokens: number): LiveUsage[] {
  return branches.map(({ index, prompt: { promptTokens, imageTokens } }) => ({
    promptTokens,
    imageTokens,
    audioTokens: 0,
    cachedTokens: index === 0 ? 0 : sharedTokens,
  }))
}

function checkLength(
  promptTokens: number,
  maxTokens: number | null,
  { contextTokens }: ModelInfo,
  param: string,
): void {
  const problem = lengthProblem(promptTokens, maxTokens, contextTokens)
  if (problem !== null) throw invalidRequest(problem, param, { code: 'context_length_exceeded' })
}

/** The error for a prompt that was not read to its end. */
function endless({ contextTokens }: ModelInfo, param = DEFAULT_PARAM): ApiError {
  return invalidRequest(promptProblem(Number.POSITIVE_INFINITY, contextTokens), param, {
    code: 'context_length_exceeded',
  })
}
