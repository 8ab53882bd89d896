import { createHash } from 'node:crypto'
import { invalidRequest, modelOverloaded, tryAgainIn } from '../../lib/errors.ts'
import { endlessProblem, lengthProblem } from '../context-length.ts'
import type {
  CountOptions,
  Engine,
  EngineEvent,
  EngineState,
  EngineStats,
  Generation,
  ModelInfo,
  PromptPart,
  PromptUsage,
  Work,
} from '../engine.ts'
import { EventQueue } from '../event-queue.ts'
import { joinTexts } from '../join-texts.ts'
import { TokenTally } from '../token-tally.ts'
import type { ConstraintWriter } from './constraint-writer.ts'
import { assemble, joined, layOut, type PictureRule, type RemotePrompt } from './prompt.ts'
import type { TokenizerThreads } from './tokens/tokenizer-threads.ts'
import type { ServerLoad } from './wire/wire.ts'
import { type AdmittedBranch, type LiveUsage, noServer, WorkRun, type WorkRunParts } from './work-run.ts'

export interface RemoteEngineParts extends WorkRunParts {
  readonly info: ModelInfo
  readonly tokenizer: TokenizerThreads
  readonly constraints: ConstraintWriter
  /** The token that every prompt begins with; null where there is none. */
  readonly beginToken: number | null
  /** Null for a model that sees no pictures. */
  readonly pictures: PictureRule | null
  /** Requests that may wait for their first completion to start. */
  readonly maxWaiting: number
}

interface AdmittedPrompts {
  readonly branches: readonly AdmittedBranch[]
  /** Prompt tokens that all branches begin with. */
  readonly sharedTokens: number
}

/** The input that errors name when the caller gives none. */
const DEFAULT_PARAM = 'messages'
/** Tokens of a prompt that decide which server gets it, where it has no picture. */
const KEY_TOKENS = 256
const METRICS_MS = 2_000

/**
 * A model that servers of another engine run. Prompts, constraints, thoughts and places are decided here; the servers
 * compute tokens.
 */
export class RemoteEngine implements Engine {
  readonly info: ModelInfo
  readonly #parts: RemoteEngineParts
  readonly #closing = new AbortController()
  #waiting = 0
  readonly #counters = { prefilled: 0, reused: 0, hits: 0, misses: 0, decoded: 0 }

  constructor(parts: RemoteEngineParts) {
    this.#parts = parts
    this.info = parts.info
  }

  get state(): EngineState {
    if (this.#closing.signal.aborted) return 'closed'
    return this.#parts.servers.up.length > 0 ? 'ready' : 'restarting'
  }

  async generate(work: Work, signal: AbortSignal): Promise<Generation> {
    signal.throwIfAborted()
    this.#checkReady()
    const { servers, maxWaiting } = this.#parts
    const completions = work.branches.reduce((sum, { n }) => sum + n, 0)
    if (this.#waiting >= maxWaiting) {
      const seconds = Math.max(1, servers.secondsUntilPlaces(completions))
      throw modelOverloaded(`The model is overloaded. ${tryAgainIn(seconds)}`, seconds)
    }
    this.#waiting++
    let waits = true
    const placed = () => {
      if (waits) this.#waiting--
      waits = false
    }
    try {
      const { branches, sharedTokens } = await this.#admit(work, signal)
      const usage = usageOf(branches, sharedTokens)
      const tally = new TokenTally()
      const left = new AbortController()
      const leave = () => left.abort(new Error('Nobody reads the events any more.'))
      const queue = new EventQueue<EngineEvent>(leave, joinTexts)
      const run = new WorkRun(this.#parts, {
        organisation: work.organisation,
        cacheSalt: saltOf(work.organisation),
        key: keyOf(work.organisation, branches),
        branches,
        usage,
        signal: AbortSignal.any([signal, left.signal, this.#closing.signal]),
        placed,
        emit: (event) => {
          tally.add([event])
          queue.push([event])
        },
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
          this.#count(usage, tally.tokens)
        })
      return { prompts: usage, events: queue, computedTokens: () => tally.tokens }
    } catch (error) {
      placed()
      throw error
    }
  }

  async countTokens(parts: readonly PromptPart[], { organisation, signal }: CountOptions): Promise<number> {
    signal.throwIfAborted()
    if (this.#isTooLong(parts)) return Number.POSITIVE_INFINITY
    const [prompt] = (await this.#read([parts], [DEFAULT_PARAM], organisation)) ?? []
    signal.throwIfAborted()
    return prompt === undefined ? Number.POSITIVE_INFINITY : prompt.promptTokens
  }

  async stats(): Promise<EngineStats> {
    this.#checkReady()
    const { wire, servers } = this.#parts
    const loads = await Promise.all(
      servers.up.map(({ url }) => wire.load(url, AbortSignal.timeout(METRICS_MS)).catch(() => null)),
    )
    const known = loads.filter((load) => load !== null)
    const sum = (of: (load: ServerLoad) => number) => known.reduce((total, load) => total + of(load), 0)
    const { prefilled, reused, hits, misses, decoded } = this.#counters
    return {
      running: sum(({ running }) => running),
      waiting: this.#waiting + sum(({ waiting }) => waiting),
      totalCells: sum(({ kvTokens }) => kvTokens),
      usedCells: Math.round(sum(({ kvTokens, kvUsage }) => kvTokens * kvUsage)),
      usedSequences: sum(({ running }) => running),
      cachedCells: 0,
      cachedSequences: 0,
      prefilledTokens: prefilled,
      reusedTokens: reused,
      prefixHits: hits,
      prefixMisses: misses,
      decodedTokens: decoded,
      preemptions: sum(({ preemptions }) => preemptions),
      residentBytes: 0,
    }
  }

  async close(): Promise<void> {
    const { servers, wire, tokenizer, constraints } = this.#parts
    const reason = modelOverloaded('The service is shutting down.', 1)
    this.#closing.abort(reason)
    servers.failWaiting(reason)
    for (const server of servers.all) server.close()
    await Promise.all([wire.close(), tokenizer.close(), constraints.close()])
  }

  #checkReady(): void {
    this.#closing.signal.throwIfAborted()
    if (this.#parts.servers.up.length === 0) throw noServer()
  }

  /** @throws ApiError 400 for a branch that does not fit, or that asks for what the model cannot do. */
  async #admit({ organisation, prefix, branches }: Work, signal: AbortSignal): Promise<AdmittedPrompts> {
    const { constraints, info } = this.#parts
    const params = branches.map(({ param }) => param ?? DEFAULT_PARAM)
    const [longest] = branches.filter(({ suffix }) => this.#isTooLong([...prefix, ...suffix]))
    if (longest !== undefined) throw invalidRequest(endlessProblem(info.contextTokens), longest.param ?? DEFAULT_PARAM)
    const prompts = await this.#read(
      [prefix, ...branches.map(({ suffix }) => suffix)],
      [params[0] ?? DEFAULT_PARAM, ...params],
      organisation,
    )
    signal.throwIfAborted()
    if (prompts === null) throw invalidRequest(endlessProblem(info.contextTokens), params[0] ?? DEFAULT_PARAM)
    const [shared, ...suffixes] = prompts
    const admitted = await Promise.all(
      branches.map(async (branch, index): Promise<AdmittedBranch> => {
        const prompt = joined(this.#begun(shared!, suffixes[index]!), suffixes[index]!)
        if (prompt.promptTokens === 0) throw invalidRequest('The prompt is empty.', params[index]!)
        checkLength(prompt.promptTokens, branch.maxTokens, info, params[index]!)
        const { constraint } = branch
        const grammar = constraint === undefined ? null : await constraints.write(constraint, organisation)
        const maxTokens = branch.maxTokens ?? info.contextTokens - prompt.promptTokens
        return { ...branch, index, prompt, maxTokens, grammar }
      }),
    )
    // A branch that adds nothing to the prefix computes the last token of it.
    const borrowed = suffixes.some(({ promptTokens }) => promptTokens === 0) ? 1 : 0
    return { branches: admitted, sharedTokens: Math.max(0, shared!.promptTokens - borrowed) }
  }

  /** Puts the token before a prompt that its model must see first, unless the template has written it. */
  #begun(prompt: RemotePrompt, next: RemotePrompt): RemotePrompt {
    const { beginToken } = this.#parts
    const first = prompt.tokens[0] ?? next.tokens[0]
    if (beginToken === null || first === undefined || first === beginToken) return prompt
    return { ...prompt, tokens: [beginToken, ...prompt.tokens], promptTokens: prompt.promptTokens + 1 }
  }

  /** @returns null when it takes too long. */
  async #read(
    prompts: readonly (readonly PromptPart[])[],
    params: readonly string[],
    organisation: string,
  ): Promise<readonly RemotePrompt[] | null> {
    const { tokenizer, pictures } = this.#parts
    const layouts = prompts.map((parts, index) => layOut(parts, pictures !== null, params[index]!))
    const tokens = await tokenizer.encode(
      layouts.flatMap(({ texts }) => texts),
      organisation,
    )
    if (tokens === null) return null
    const salt = saltOf(organisation)
    let at = 0
    return layouts.map((layout) => {
      const own = tokens.slice(at, at + layout.texts.length)
      at += layout.texts.length
      return assemble(layout, own, pictures, salt)
    })
  }

  /** A longer text cannot fit, whatever it says. */
  #isTooLong(parts: readonly PromptPart[]): boolean {
    const bytes = parts.reduce((sum, part) => sum + (part.type === 'text' ? Buffer.byteLength(part.text) : 0), 0)
    return bytes > this.info.contextTokens * this.info.longestTokenBytes
  }

  #count(usage: readonly PromptUsage[], decoded: number): void {
    const counters = this.#counters
    for (const { promptTokens, cachedTokens } of usage) {
      counters.prefilled += promptTokens - cachedTokens
      counters.reused += cachedTokens
      if (cachedTokens > 0) counters.hits++
      else counters.misses++
    }
    counters.decoded += decoded
  }
}

/** The first branch is charged for the prefill that the others share. */
function usageOf(branches: readonly AdmittedBranch[], sharedTokens: number): LiveUsage[] {
  return branches.map(({ index, prompt: { promptTokens, imageTokens } }) => ({
    promptTokens,
    imageTokens,
    audioTokens: 0,
    cachedTokens: index === 0 ? 0 : sharedTokens,
  }))
}

/** Caches are never shared between organisations. */
function saltOf(organisation: string): string {
  return createHash('sha256').update(`lookout ${organisation}`).digest('hex')
}

/** Requests about the same picture, or with the same beginning, go to the server that has computed it. */
function keyOf(organisation: string, [first]: readonly AdmittedBranch[]): string {
  const { tokens, pictures } = first!.prompt
  return `${organisation} ${pictures[0]?.key ?? tokens.slice(0, KEY_TOKENS).join()}`
}

function checkLength(
  promptTokens: number,
  maxTokens: number | null,
  { contextTokens }: ModelInfo,
  param: string,
): void {
  const problem = lengthProblem(promptTokens, maxTokens, contextTokens)
  if (problem !== null) throw invalidRequest(problem, param)
}
