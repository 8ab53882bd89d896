import { setImmediate as nextTurn } from 'node:timers/promises'
import type { EmbeddedInput } from '../../../contract/generation.ts'
import type { Priority } from '../../../contract/priority.ts'
import type { LocalStats } from '../../../contract/stats.ts'
import type { EmbedWork } from '../../../contract/work.ts'
import { toFailure, tooMany } from '../../failure.ts'
import type { FromEngine } from '../../protocol.ts'
import type { MediaTokens, TokenisedPrompt } from '../../tokens/prompt-tokens.ts'
import { textOf } from '../admission.ts'
import { PrefillCursor } from '../batch/prefill-cursor.ts'
import { WorkQueue } from '../work-queue.ts'
import type { EmbeddingModel } from './embedding-model.ts'
import { isText } from './input-tokens.ts'
import { VectorCache } from './vector-cache.ts'

export interface EmbedderSettings {
  /** Maximum waiting requests per priority. */
  readonly maxWaiting: number
  /** Measured time per row, in ms. */
  readonly rowMs: number
}

/** A request whose inputs fit the model. */
interface EmbedRequest {
  readonly id: number
  readonly organisation: string
  readonly priority: Priority
  /** Inputs whose vectors are not cached. */
  readonly inputs: readonly Input[]
  readonly isTraced: boolean
  /** Whether it must not share a call, because a shared call with it has failed. */
  isAlone: boolean
  hasStarted: boolean
  /** Index of its first input that has no vector and is not in a call. */
  next: number
  /** Encoding time so far of the current picture, in ms. */
  encodeMs: number
}

interface Input {
  /** Index of the input in the request. */
  readonly at: number
  readonly prompt: TokenisedPrompt
}

/** An input in a call. */
interface Placed {
  readonly request: EmbedRequest
  readonly input: Input
}

/** An input that takes several calls and has begun. */
interface Begun extends Placed {
  readonly cursor: PrefillCursor
}

/**
 * Computes vectors, one call at a time. A call takes about as many rows as a step of completions, and inputs of several
 * requests if the first one leaves room. Organisations take turns after each call, so that a large request delays
 * others by one call at a time. An input with pictures gets calls of its own once they are encoded.
 */
export class Embedder {
  readonly #loaded: EmbeddingModel
  readonly #settings: EmbedderSettings
  readonly #send: (message: FromEngine) => void
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
  }

  /**
   * @returns prompts for `submit`, which closes them.
   * @throws FailureError when the queue is full, or if an input does not fit.
   */
  async admit(
    { organisation, inputs, priority, truncates = false }: EmbedWork,
    signal: AbortSignal,
  ): Promise<readonly TokenisedPrompt[]> {
    this.#checkQueue(priority)
    const admitted: TokenisedPrompt[] = []
    try {
      for (const input of inputs) {
        admitted.push(await this.#loaded.inputs.of(input, { organisation, truncates, signal }))
        // Lets other requests and calls proceed.
        if (admitted.length % INPUTS_AT_ONCE === 0) await nextTurn()
        signal.throwIfAborted()
      }
      this.#checkQueue(priority)
      return admitted
    } catch (error) {
      for (const prompt of admitted) prompt.close()
      throw error
    }
  }

  /**
   * Replies with `admitted`, then `vectors`; or with `error`.
   * @param isTraced whether to send its stages as well.
   */
  submit(
    id: number,
    { organisation, priority = 'interactive' }: EmbedWork,
    inputs: readonly TokenisedPrompt[],
    isTraced: boolean,
  ) {
    const known = inputs.map(({ chunks }) => this.#known.find(organisation, chunks))
    const prompts = inputs.map(({ tokens: promptTokens, imageTokens, audioTokens }, at) => {
      return { promptTokens, imageTokens, audioTokens, cachedTokens: known[at] === undefined ? 0 : promptTokens }
    })
    this.#send({ type: 'admitted', id, prompts })
    const all = inputs.map((prompt, at) => ({ at, prompt }))
    const asked = all.filter(({ at }) => known[at] === undefined)
    for (const { at, prompt } of all) if (known[at] !== undefined) prompt.close()
    const found = known.flatMap((vector, input) => (vector === undefined ? [] : [{ input, vector }]))
    if (asked.length === 0 && isTraced) this.#send({ type: 'started', id })
    if (found.length > 0) this.#send({ type: 'vectors', id, vectors: found, last: asked.length === 0 })
    if (asked.length === 0) return
    const begins = { isAlone: false, hasStarted: false, next: 0, encodeMs: 0 }
    const request: EmbedRequest = { id, organisation, priority, inputs: asked, isTraced, ...begins }
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
      .reduce((sum, { prompt }) => sum + prompt.tokens, 0)
    throw tooMany('The model is busy and its queue is full.', Math.max(1, (rows * this.#settings.rowMs) / 1000))
  }

  async #run(): Promise<void> {
    this.#isRunning = true
    while (!this.#queue.isEmpty) {
      // Lets messages arrive, which may be aborts.
      await nextTurn()
      this.#step()
    }
    this.#isRunning = false
  }

  #step(): void {
    const head = this.#queue.head
    if (head === undefined) return
    let placed: readonly Placed[] = []
    try {
      const media = this.#begun === null ? mediaToEncode(head) : undefined
      placed = media === undefined ? this.#place() : [{ request: head, input: head.inputs[head.next]! }]
      for (const { request } of placed) this.#start(request)
      if (media !== undefined) this.#encode(head, media)
      else if (this.#compute()) this.#answer(placed)
    } catch (error) {
      this.#forget()
      const requests = new Set(placed.map(({ request }) => request))
      if (requests.size > 1) {
        // Only one of the requests may be at fault: each is retried alone.
        for (const { request } of placed) request.next--
        for (const request of requests) request.isAlone = true
      } else for (const request of requests) this.#fail(request, error)
    }
    if (this.#begun === null) this.#queue.of(head.priority).rotate()
  }

  /** Runs the encoder for a turn; others compute between turns. */
  #encode(request: EmbedRequest, media: MediaTokens): void {
    const { id, priority, isTraced } = request
    const started = performance.now()
    const isDone = media.encode({ ms: ENCODE_MS, priority }) !== null
    request.encodeMs += performance.now() - started
    if (!isDone) return
    if (isTraced) this.#send({ type: 'encoded', id, ms: request.encodeMs })
    request.encodeMs = 0
  }

  /** Fills the batch with whole texts, or begins an input that needs several calls. */
  #place(): readonly Placed[] {
    this.#begun ??= this.#begin()
    if (this.#begun !== null) return [this.#begun]
    const { batch, sequences } = this.#loaded.context
    const head = this.#queue.head!
    const first = head.inputs[head.next]!.prompt.tokens
    const rows = Math.min(batch.capacity, Math.max(first, this.#loaded.compute.batchRows))
    const placed: Placed[] = []
    for (const request of this.#queue.items) {
      if (request !== head && (request.isAlone || head.isAlone)) continue
      for (; request.next < request.inputs.length; request.next++) {
        const input = request.inputs[request.next]!
        if (!isText(input.prompt) || placed.length === sequences || batch.length + input.prompt.tokens > rows) break
        for (const [at, token] of textOf(input.prompt.chunks).entries()) batch.add(token, at, placed.length, true)
        placed.push({ request, input })
      }
    }
    this.#prefilledTokens += batch.length
    return placed
  }

  /** Begins the next input of the request whose turn it is, if the input needs several calls; otherwise null. */
  #begin(): Begun | null {
    const request = this.#queue.head!
    const { batch, splits } = this.#loaded.context
    const input = request.inputs[request.next]!
    const { chunks, tokens } = input.prompt
    if (isText(input.prompt) && (!splits || tokens <= batch.capacity)) return null
    request.next++
    return { request, input, cursor: new PrefillCursor({ id: 0, position: 0, cells: 0 }, chunks, 0) }
  }

  /**
   * Makes a call. Blocks.
   * @returns whether the placed inputs are complete.
   */
  #compute(): boolean {
    const cursor = this.#begun?.cursor
    if (cursor === undefined) {
      this.#loaded.context.compute()
      return true
    }
    this.#prefilledTokens += this.#loaded.advance(cursor)
    if (cursor.isDone) this.#begun = null
    return cursor.isDone
  }

  #start(request: EmbedRequest): void {
    if (!request.hasStarted && request.isTraced) this.#send({ type: 'started', id: request.id })
    request.hasStarted = true
  }

  #answer(placed: readonly Placed[]): void {
    const vectors = new Map<EmbedRequest, EmbeddedInput[]>()
    const failed = new Map<EmbedRequest, unknown>()
    for (const [sequence, { request, input }] of placed.entries()) {
      const own = vectors.get(request) ?? []
      vectors.set(request, own)
      try {
        const vector = this.#loaded.context.vector(sequence)
        this.#known.keep(request.organisation, input.prompt.chunks, vector)
        own.push({ input: input.at, vector })
      } catch (error) {
        failed.set(request, error)
      }
      input.prompt.close()
    }
    this.#loaded.context.clear()
    for (const [request, error] of failed) this.#fail(request, error)
    for (const [request, own] of vectors) {
      if (failed.has(request)) continue
      const last = request.next === request.inputs.length
      if (last) this.#close(request)
      this.#send({ type: 'vectors', id: request.id, vectors: own, last })
    }
  }

  #fail(request: EmbedRequest, error: unknown): void {
    this.#close(request)
    this.#send({ type: 'error', id: request.id, error: toFailure(error) })
  }

  #close(request: EmbedRequest): void {
    this.#requests.delete(request.id)
    for (const { prompt } of request.inputs) prompt.close()
    this.#queue.of(request.priority).remove(request)
    if (this.#begun?.request === request) this.#forget()
  }

  #forget(): void {
    this.#begun = null
    this.#loaded.context.clear()
  }
}

/** The next picture that must be encoded before the request's next input can be computed. */
function mediaToEncode({ inputs, next }: EmbedRequest): MediaTokens | undefined {
  return inputs[next]?.prompt.chunks.find(
    (chunk): chunk is MediaTokens => chunk.type === 'media' && chunk.knownEmbeddings() === undefined,
  )
}

/** Duration of an encoder turn, in ms. */
const ENCODE_MS = 100
/** Texts that are tokenised per turn of the event loop. */
const INPUTS_AT_ONCE = 16
