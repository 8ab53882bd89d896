import { EventQueue } from '../../contract/event-queue.ts'
import type { EngineEvent, Generation, PromptUsage, ReadAnswer, Reading } from '../../contract/generation.ts'
import { joinTexts } from '../../contract/join-texts.ts'
import type { LocalStats } from '../../contract/stats.ts'
import { TokenTally } from '../../contract/token-tally.ts'
import type { WorkTrace } from '../../contract/work-trace.ts'
import { toApiError } from '../failure.ts'
import type { FromEngine, RequestEvents, SentAnswer } from '../protocol.ts'

type Answer = Extract<FromEngine, { id: number }>

interface PendingCall {
  handle(message: Answer): void
  handleEvents?(message: RequestEvents): void
  fail(reason: unknown): void
}

/** The calls that wait for an answer from the engine process, by id. */
export class PendingCalls {
  readonly #calls = new Map<number, PendingCall>()
  #lastId = 0

  /**
   * Registers a generation. `admitted` settles when the engine admits or rejects it.
   * @param abort called with the id when the caller has left.
   */
  addGeneration(
    signal: AbortSignal,
    abort: (id: number) => void,
    trace?: WorkTrace,
  ): { id: number; admitted: Promise<Generation> } {
    const id = ++this.#lastId
    const { promise: admitted, resolve, reject } = Promise.withResolvers<Generation>()
    const forget = () => {
      this.#calls.delete(id)
      signal.removeEventListener('abort', onAbort)
    }
    const tally = new TokenTally()
    const abandon = () => {
      forget()
      abort(id)
    }
    const events = new EventQueue<EngineEvent>(abandon, joinTexts)
    const fail = (reason: unknown) => {
      forget()
      reject(reason)
      events.fail(reason)
    }
    const onAbort = () => {
      fail(signal.reason)
      abort(id)
    }
    signal.addEventListener('abort', onAbort)
    const handle = (message: Answer) => {
      if (message.type === 'admitted') resolve(tally.counting({ prompts: message.prompts, events }))
      else if (message.type === 'error') fail(toApiError(message.error))
      else if (message.type === 'started') trace?.started()
      else if (message.type === 'encoded') trace?.encoded(message.ms)
    }
    const handleEvents = (message: RequestEvents) => {
      tally.add(message.events)
      events.push(message.events)
      if (!message.last) return
      events.end()
      forget()
    }
    this.#calls.set(id, { handle, handleEvents, fail })
    return { id, admitted }
  }

  /** Registers a read; see `addGeneration`. */
  addReading(
    signal: AbortSignal,
    abort: (id: number) => void,
    trace?: WorkTrace,
  ): { id: number; admitted: Promise<Reading> } {
    const id = ++this.#lastId
    const { promise: admitted, resolve, reject } = Promise.withResolvers<Reading>()
    const forget = () => {
      this.#calls.delete(id)
      signal.removeEventListener('abort', onAbort)
    }
    const abandon = () => {
      forget()
      abort(id)
    }
    const answers = new EventQueue<ReadAnswer>(abandon, () => null)
    const fail = (reason: unknown) => {
      forget()
      reject(reason)
      answers.fail(reason)
    }
    const onAbort = () => {
      fail(signal.reason)
      abort(id)
    }
    signal.addEventListener('abort', onAbort)
    const handle = (message: Answer) => {
      if (message.type === 'admitted') resolve({ prompts: message.prompts, answers })
      else if (message.type === 'error') fail(toApiError(message.error))
      else if (message.type === 'started') trace?.started()
      else if (message.type === 'encoded') trace?.encoded(message.ms)
      else if (message.type === 'answers') {
        answers.push(message.answers.map(received))
        if (!message.last) return
        answers.end()
        forget()
      }
    }
    this.#calls.set(id, { handle, fail })
    return { id, admitted }
  }

  /**
   * Registers a token count.
   * @param abort called with the id when the caller has left.
   */
  addCount(signal: AbortSignal, abort: (id: number) => void): { id: number; tokens: Promise<number> } {
    const read = (message: Answer) => (message.type === 'counted' ? message.tokens : null)
    const { id, answer } = this.#addCall(read, { signal, abort })
    return { id, tokens: answer }
  }

  /** Registers a measurement. @param abort see `addCount`. */
  addMeasurement(
    signal: AbortSignal,
    abort: (id: number) => void,
  ): { id: number; prompts: Promise<readonly PromptUsage[]> } {
    const read = (message: Answer) => (message.type === 'measured' ? message.prompts : null)
    const { id, answer } = this.#addCall(read, { signal, abort })
    return { id, prompts: answer }
  }

  /** Registers a request for the engine's statistics. */
  addStats(): { id: number; stats: Promise<LocalStats> } {
    const { id, answer } = this.#addCall((message) => (message.type === 'stats' ? message.stats : null))
    return { id, stats: answer }
  }

  /** @param caller signal that aborts when the caller leaves. */
  #addCall<T>(
    read: (message: Answer) => T | null,
    caller?: { readonly signal: AbortSignal; abort(id: number): void },
  ): { id: number; answer: Promise<T> } {
    const id = ++this.#lastId
    const { promise: answer, resolve, reject } = Promise.withResolvers<T>()
    const fail = (reason: unknown) => {
      this.#calls.delete(id)
      reject(reason)
    }
    const handle = (message: Answer) => {
      this.#calls.delete(id)
      const value = read(message)
      if (value !== null) resolve(value)
      else if (message.type === 'error') reject(toApiError(message.error))
    }
    this.#calls.set(id, { handle, fail })
    if (caller === undefined) return { id, answer }
    const { signal, abort } = caller
    const onAbort = () => {
      fail(signal.reason)
      abort(id)
    }
    signal.addEventListener('abort', onAbort)
    return { id, answer: answer.finally(() => signal.removeEventListener('abort', onAbort)) }
  }

  handle(message: Answer): void {
    this.#calls.get(message.id)?.handle(message)
  }

  handleEvents(requests: readonly RequestEvents[]): void {
    for (const message of requests) this.#calls.get(message.id)?.handleEvents?.(message)
  }

  /** Fails one call, for example because its message cannot be sent. */
  fail(id: number, reason: unknown): void {
    this.#calls.get(id)?.fail(reason)
  }

  failAll(reason: unknown): void {
    for (const call of [...this.#calls.values()]) call.fail(reason)
  }
}

function received(answer: SentAnswer): ReadAnswer {
  return 'error' in answer ? { question: answer.question, error: toApiError(answer.error) } : answer
}
