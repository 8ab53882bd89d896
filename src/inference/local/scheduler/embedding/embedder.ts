import { setImmediate as nextTurn } from 'node:timers/promises'
import type { EmbeddedInput } from '../../../contract/generation.ts'
import type { Priority } from '../../../contract/priority.ts'
import type { LocalStats } from '../../../contract/stats.ts'
import type { EmbedWork } from '../../../contract/work.ts'
import { toFailure, tooMany } from '../../failure.ts'
import type { FromEngine } from '../../protocol.ts'
import { WorkQueue } from '../work-queue.ts'
import type { EmbeddingModel } from './embedding-model.ts'
import { InputTokens } from './input-tokens.ts'
import { VectorCache } from './vector-cache.ts'

export interface EmbedderSettings {
  /** Requests of a priority that may wait. */
  readonly maxWaiting: number
  /** Measured ms of a row. */
  readonly rowMs: number
}

/** A request whose inputs fit the model. */
interface EmbedRequest {
  readonly id: number
  readonly organisation: string
  readonly priority: Priority
  /** Those whose vectors are not known. */
  readonly inputs: readonly Input[]
  readonly isTraced: boolean
  hasStarted: boolean
  /** Its first input that has no vector and no place in a call. */
  next: number
}

interface Input {
  /** Its place in the request. */
  readonly at: number
  readonly tokens: Int32Array
}

/** An input in a call. */
interface Placed {
  readonly request: EmbedRequest
  readonly input: Input
}

/** A text of several calls that has begun. */
interface Begun extends Placed {
  /** Tokens that are computed. */
  tokens: number
}

/**
 * Makes vectors, one call at a time. A call takes about as many rows as a step of completions, of several requests where the
 * first one leaves room. Organisations take turns after each call, so that a large request delays others by one call at a time.
 */
export class Embedder {
  readonly #loaded: EmbeddingModel
  readonly #settings: EmbedderSettings
  readonly #send: (message: FromEngine) => void
  readonly #tokens: InputTokens
  readonly #queue = new WorkQueue<EmbedRequest>()
  readonly #requests = new Map<number, EmbedRequest>()
  readonly #known = new VectorCache()
  #begun: Begun | null = null
  #isRunning = false
  #prefilledTokens = 0

  constructor(loaded: EmbeddingModel, settings: EmbedderSettings, send: (message: FromEngine) => void) {
    this.#loaded = loaded
    this.#settings = settings
    this.#send = send
    this.#tokens = new InputTokens(loaded.model, loaded.info.contextTokens)
  }

  /** @throws FailureError when the queue is full, or for an input that does not fit. */
  async admit({ inputs, priority, truncates = false }: EmbedWork, signal: AbortSignal): Promise<readonly Int32Array[]> {
    this.#checkQueue(priority)
    const admitted: Int32Array[] = []
    for (const input of inputs) {
      admitted.push(await this.#tokens.of(input, truncates))
      // Other requests and calls go on meanwhile.
      if (admitted.length % INPUTS_AT_ONCE === 0) await nextTurn()
      signal.throwIfAborted()
    }
    this.#checkQueue(priority)
    return admitted
  }

  /** Replies with `admitted`, then `vectors`; or with `error`. @param isTraced whether to send its stages too. */
  submit(
    id: number,
    { organisation, priority = 'interactive' }: EmbedWork,
    inputs: readonly Int32Array[],
    isTraced: boolean,
  ) {
    const known = inputs.map((tokens) => this.#known.find(organisation, tokens))
    const usage = { imageTokens: 0, audioTokens: 0 }
    const prompts = inputs.map(({ length }, at) => {
      return { ...usage, promptTokens: length, cachedTokens: known[at] === undefined ? 0 : length }
    })
    this.#send({ type: 'admitted', id, prompts })
    const asked = inputs.map((tokens, at) => ({ at, tokens })).filter(({ at }) => known[at] === undefined)
    const found = known.flatMap((vector, input) => (vector === undefined ? [] : [{ input, vector }]))
    if (asked.length === 0 && isTraced) this.#send({ type: 'started', id })
    if (found.length > 0) this.#send({ type: 'vectors', id, vectors: found, last: asked.length === 0 })
    if (asked.length === 0) return
    const request: EmbedRequest = { id, organisation, priority, inputs: asked, isTraced, hasStarted: false, next: 0 }
    this.#requests.set(id, request)
    this.#queue.of(priority).add(request)
    if (!this.#isRunning) void this.#run()
  }

  abort(id: number): void {
    const request = this.#requests.get(id)
    if (request !== undefined) this.#close(request)
  }

  get stats(): LocalStats {
    return {
      running: this.#requests.size - this.#queue.waiting,
      waiting: this.#queue.waiting,
      totalCells: 0,
      usedCells: 0,
      usedSequences: 0,
      prefilledTokens: this.#prefilledTokens,
      reusedTokens: 0,
      prefixHits: 0,
      prefixMisses: 0,
      decodedTokens: 0,
      preemptions: 0,
      cachedCells: 0,
      cachedSequences: 0,
      retainedCells: 0,
      retainedSequences: 0,
      diskBytes: 0,
      diskSequences: 0,
      diskHits: 0,
      draftedTokens: 0,
      acceptedTokens: 0,
      residentBytes: process.memoryUsage.rss(),
    }
  }

  #checkQueue(priority: Priority = 'interactive'): void {
    if (this.#queue.waitingOf(priority) < this.#settings.maxWaiting) return
    const rows = this.#queue.items
      .flatMap(({ inputs, next }) => inputs.slice(next))
      .reduce((sum, { tokens }) => sum + tokens.length, 0)
    throw tooMany('The model is busy and its queue is full.', Math.max(1, (rows * this.#settings.rowMs) / 1000))
  }

  async #run(): Promise<void> {
    this.#isRunning = true
    while (!this.#queue.isEmpty) {
      // Messages arrive, which may be aborts.
      await nextTurn()
      this.#step()
    }
    this.#isRunning = false
  }

  #step(): void {
    const head = this.#queue.head
    if (head === undefined) return
    const placed = this.#place()
    try {
      for (const { request } of placed) this.#start(request)
      this.#loaded.context.compute()
      if (this.#begun === null) this.#answer(placed)
    } catch (error) {
      this.#forget()
      const failure = toFailure(error)
      for (const request of new Set(placed.map(({ request }) => request))) {
        this.#close(request)
        this.#send({ type: 'error', id: request.id, error: failure })
      }
    }
    if (this.#begun === null) this.#queue.of(head.priority).rotate()
  }

  /** Fills the batch: with the next tokens of a text of several calls, or with whole texts. */
  #place(): readonly Placed[] {
    const { batch, splits, sequences } = this.#loaded.context
    const first = this.#begun ?? this.#firstInput()
    const { tokens } = first.input
    if (splits && tokens.length > batch.capacity) {
      const from = this.#begun?.tokens ?? 0
      const end = Math.min(tokens.length, from + batch.capacity)
      for (let at = from; at < end; at++) batch.add(tokens[at]!, at, 0, true)
      this.#prefilledTokens += end - from
      this.#begun = end < tokens.length ? { ...first, tokens: end } : null
      return [first]
    }
    const rows = Math.min(batch.capacity, Math.max(tokens.length, this.#loaded.compute.batchRows))
    const placed: Placed[] = []
    for (const request of this.#queue.items) {
      for (; request.next < request.inputs.length; request.next++) {
        const input = request.inputs[request.next]!
        if (placed.length === sequences || batch.length + input.tokens.length > rows) break
        for (const [at, token] of input.tokens.entries()) batch.add(token, at, placed.length, true)
        placed.push({ request, input })
      }
    }
    this.#prefilledTokens += batch.length
    return placed
  }

  /** Takes the next input of the request whose turn it is, if it needs several calls. */
  #firstInput(): Placed {
    const request = this.#queue.head!
    const { batch, splits } = this.#loaded.context
    const input = request.inputs[request.next]!
    if (splits && input.tokens.length > batch.capacity) request.next++
    return { request, input }
  }

  #start(request: EmbedRequest): void {
    if (!request.hasStarted && request.isTraced) this.#send({ type: 'started', id: request.id })
    request.hasStarted = true
  }

  #answer(placed: readonly Placed[]): void {
    const vectors = new Map<EmbedRequest, EmbeddedInput[]>()
    for (const [sequence, { request, input }] of placed.entries()) {
      const own = vectors.get(request) ?? []
      const vector = this.#loaded.context.vector(sequence)
      this.#known.keep(request.organisation, input.tokens, vector)
      own.push({ input: input.at, vector })
      vectors.set(request, own)
    }
    this.#loaded.context.clear()
    for (const [request, own] of vectors) {
      const last = request.next === request.inputs.length
      if (last) this.#close(request)
      this.#send({ type: 'vectors', id: request.id, vectors: own, last })
    }
  }

  #close(request: EmbedRequest): void {
    this.#requests.delete(request.id)
    this.#queue.of(request.priority).remove(request)
    if (this.#begun?.request === request) this.#forget()
  }

  #forget(): void {
    this.#begun = null
    this.#loaded.context.clear()
  }
}

/** Texts that are tokenised in one turn of the event loop. */
const INPUTS_AT_ONCE = 16
