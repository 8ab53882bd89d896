import { type ApiError, invalidRequest, modelOverloaded, tryAgainIn } from '../../lib/errors/errors.ts'
import type { OpenAiModelCard } from '../../models/card.ts'
import type { Engine, EngineState, ModelInfo } from '../contract/engine.ts'
import { EventQueue } from '../contract/event-queue.ts'
import type { EmbeddedInput, Embedding } from '../contract/generation.ts'
import type { EmbedInput, EmbedWork } from '../contract/work.ts'
import type { LiveUsage } from './exchange.ts'
import { type EmbeddingAnswer, EmbeddingWire, isTurn } from './openai/embedding-wire.ts'
import type { ModelServer } from './servers/server.ts'
import type { Servers } from './servers/servers.ts'
import { apiKeyOf, mostWaiting, type RemoteEngineOptions, serversOf, watched } from './start.ts'
import { describeTextModel } from './text-model.ts'
import { ServerFailure } from './wire/wire.ts'
import { noServer, overloaded, RETRIED, unavailable } from './work-run.ts'

/** Maximum inputs per request to a server. More would block this process while their vectors are read. */
const INPUTS_AT_ONCE = 32
/** Maximum concurrent requests for inputs with images, each of which has its own. */
const TURNS_AT_ONCE = 4

/**
 * Connects to the OpenAI-compatible servers of a model that makes embeddings or scores.
 * @throws CardError
 */
export async function startEmbeddingEngine(card: OpenAiModelCard, options: RemoteEngineOptions = {}): Promise<Engine> {
  const { info } = describeTextModel(card)
  const { model, parameters } = card.engine
  const { silenceMs } = options
  const wire = new EmbeddingWire({
    ...{ model, parameters, silenceMs },
    apiKey: apiKeyOf(card),
    contextTokens: info.contextTokens,
    pixelsPerToken: card.image?.pixelsPerToken ?? null,
  })
  const servers = serversOf(card, wire, options)
  return watched(card, servers, new EmbeddingEngine(info, wire, servers, mostWaiting(card, options)))
}

/** A model on remote servers that makes embeddings or scores. */
class EmbeddingEngine implements Engine {
  readonly info: ModelInfo
  readonly #wire: EmbeddingWire
  readonly #servers: Servers
  readonly #maxWaiting: number
  readonly #closing = new AbortController()
  #waiting = 0

  constructor(info: ModelInfo, wire: EmbeddingWire, servers: Servers, maxWaiting: number) {
    this.info = info
    this.#wire = wire
    this.#servers = servers
    this.#maxWaiting = maxWaiting
  }

  get state(): EngineState {
    if (this.#closing.signal.aborted) return 'closed'
    return this.#servers.up.length > 0 ? 'ready' : 'restarting'
  }

  async embed(work: EmbedWork, signal: AbortSignal): Promise<Embedding> {
    signal.throwIfAborted()
    this.#closing.signal.throwIfAborted()
    if (this.#servers.up.length === 0) throw noServer()
    if (this.#waiting >= this.#maxWaiting) {
      const seconds = Math.max(1, this.#servers.secondsUntilPlaces(1))
      throw modelOverloaded(`The model is overloaded. ${tryAgainIn(seconds)}`, seconds)
    }
    const left = new AbortController()
    const vectors = new EventQueue<EmbeddedInput>(
      () => left.abort(new Error('The reader of the vectors has left.')),
      () => null,
    )
    // The servers report the tokens of many inputs together.
    const usage: LiveUsage = { promptTokens: 0, imageTokens: 0, audioTokens: 0, cachedTokens: 0 }
    const ending = AbortSignal.any([signal, left.signal, this.#closing.signal])
    const fail = () => vectors.fail(signal.reason)
    signal.addEventListener('abort', fail, { once: true })
    this.#waiting++
    void this.#run(work, usage, vectors, ending)
      .then(
        () => vectors.end(),
        (error) => vectors.fail(signal.aborted ? signal.reason : error),
      )
      .finally(() => signal.removeEventListener('abort', fail))
    return { prompts: [usage], vectors }
  }

  generate(): Promise<never> {
    return writesNone()
  }

  countTokens(): Promise<never> {
    return writesNone()
  }

  measure(): Promise<never> {
    return writesNone()
  }

  async close(): Promise<void> {
    const reason = modelOverloaded('The service is shutting down.', 1)
    this.#closing.abort(reason)
    this.#servers.failWaiting(reason)
    for (const server of this.#servers.all) server.close()
    await this.#wire.close()
  }

  async #run(
    work: EmbedWork,
    usage: LiveUsage,
    vectors: EventQueue<EmbeddedInput>,
    signal: AbortSignal,
  ): Promise<void> {
    let waits = true
    const placed = () => {
      if (!waits) return
      waits = false
      this.#waiting--
      work.onBegun?.()
      work.trace?.started()
    }
    try {
      for (let from = 0; from < work.inputs.length; ) {
        const first = from
        const inputs = groupAt(work.inputs, first)
        const answer = await this.#embed(work, inputs, signal, placed)
        usage.promptTokens += answer.promptTokens
        vectors.push(answer.vectors.map((vector, at) => ({ input: first + at, vector })))
        from += inputs.length
      }
    } finally {
      if (waits) this.#waiting--
    }
  }

  /**
   * Requests the vectors of some inputs. If a server rejects them, requests them one by one to name the one at fault.
   */
  async #embed(
    work: EmbedWork,
    inputs: readonly EmbedInput[],
    signal: AbortSignal,
    placed: () => void,
  ): Promise<EmbeddingAnswer> {
    try {
      return await this.#ask(work, inputs, signal, placed)
    } catch (error) {
      signal.throwIfAborted()
      if (!(error instanceof ServerFailure)) throw error
      if (RETRIED.includes(error.kind)) throw this.#errorOf(error)
      const [first, ...others] = inputs
      if (others.length === 0)
        throw invalidRequest('The servers of this model do not accept this input; it may be too long.', first!.param)
    }
    const answers: EmbeddingAnswer[] = []
    for (const input of inputs) answers.push(await this.#embed(work, [input], signal, placed))
    return {
      vectors: answers.flatMap(({ vectors }) => vectors),
      promptTokens: answers.reduce((sum, { promptTokens }) => sum + promptTokens, 0),
    }
  }

  async #ask(
    { organisation, priority }: EmbedWork,
    inputs: readonly EmbedInput[],
    signal: AbortSignal,
    placed: () => void,
  ): Promise<EmbeddingAnswer> {
    for (let avoid: ModelServer | undefined; ; ) {
      const wanted = { organisation, key: organisation, count: 1, workCount: 1, priority, avoid }
      const { server, release } = await this.#servers.place(wanted, signal)
      placed()
      try {
        return await this.#wire.embed(server.url, inputs, { signal: AbortSignal.any([signal, server.lost]) })
      } catch (error) {
        signal.throwIfAborted()
        const failure = server.lost.aborted ? server.lost.reason : error
        if (!(failure instanceof ServerFailure) || !RETRIED.includes(failure.kind)) throw failure
        void (failure.kind === 'wrong' ? server.doubt() : server.check())
        if (avoid !== undefined) throw failure
        avoid = server
      } finally {
        release()
      }
    }
  }

  #errorOf(failure: ServerFailure): ApiError {
    if (failure.kind === 'busy') return overloaded(failure)
    return this.#servers.up.length === 0 ? noServer() : unavailable('The server of this model has failed.')
  }
}

/** The next inputs that share a request: either all are turns, or none is. */
function groupAt(inputs: readonly EmbedInput[], from: number): readonly EmbedInput[] {
  const areTurns = isTurn(inputs[from]!)
  const next = inputs.slice(from, from + (areTurns ? TURNS_AT_ONCE : INPUTS_AT_ONCE))
  const end = next.findIndex((input) => isTurn(input) !== areTurns)
  return end === -1 ? next : next.slice(0, end)
}

async function writesNone(): Promise<never> {
  throw invalidRequest('This model makes embeddings and writes no text.', 'model')
}
