import { EventQueue } from '../../contract/event-queue.ts'
import type {
  EmbeddedInput,
  Embedding,
  EngineEvent,
  Generation,
  PromptUsage,
  ReadAnswer,
  Reading,
} from '../../contract/generation.ts'
import { joinTexts } from '../../contract/join-texts.ts'
import { TokenTally } from '../../contract/token-tally.ts'
import type { WorkTrace } from '../../contract/work-trace.ts'
import { toApiError } from '../failure.ts'
import type { FromEngine, RequestEvents, SentAnswer } from '../protocol.ts'

export type Answer = Extract<FromEngine, { id: number }>

interface PendingCall {
  handle(message: Answer | RequestEvents): void
  fail(reason: unknown): void
}

/** Who has asked. */
export interface Caller {
  /** Aborts when the caller leaves. */
  readonly signal: AbortSignal
  /** Called with the call's id when the caller has left. */
  abort(id: number): void
  readonly trace?: WorkTrace | undefined
  readonly onBegun?: (() => void) | undefined
}

/** A call, and what settles when the engine process answers it. */
interface Registered<Result> {
  readonly id: number
  readonly answer: Promise<Result>
}

interface StreamRules<Event, Admitted> {
  join(last: Event, next: Event): Event | null
  admit(prompts: readonly PromptUsage[], events: EventQueue<Event>): Admitted
  /** The events in a message; null for another message. */
  take(message: Answer | RequestEvents): { readonly events: readonly Event[]; readonly last: boolean } | null
}

/** The calls that wait for an answer from the engine process, by id. */
export class PendingCalls {
  readonly #calls = new Map<number, PendingCall>()
  #lastId = 0

  /** Registers a generation. It is answered when the engine admits or rejects it. */
  addGeneration(caller: Caller): Registered<Generation> {
    const tally = new TokenTally()
    return this.#addStream<EngineEvent, Generation>(caller, {
      join: joinTexts,
      admit: (prompts, events) => tally.counting({ prompts, events }),
      take: (message) => {
        if (!('events' in message)) return null
        tally.add(message.events)
        return message
      },
    })
  }

  /** Registers a read; see `addGeneration`. */
  addReading(caller: Caller): Registered<Reading> {
    return this.#addStream<ReadAnswer, Reading>(caller, {
      join: () => null,
      admit: (prompts, answers) => ({ prompts, answers }),
      take: (message) => ('answers' in message ? { events: message.answers.map(received), last: message.last } : null),
    })
  }

  /** Registers an embedding; see `addGeneration`. */
  addEmbedding(caller: Caller): Registered<Embedding> {
    return this.#addStream<EmbeddedInput, Embedding>(caller, {
      join: () => null,
      admit: (prompts, vectors) => ({ prompts, vectors }),
      take: (message) => ('vectors' in message ? { events: message.vectors, last: message.last } : null),
    })
  }

  #addStream<Event, Admitted>(
    { signal, abort, trace, onBegun }: Caller,
    { join, admit, take }: StreamRules<Event, Admitted>,
  ): Registered<Admitted> {
    const id = ++this.#lastId
    const { promise: answer, resolve, reject } = Promise.withResolvers<Admitted>()
    const forget = () => {
      this.#calls.delete(id)
      signal.removeEventListener('abort', onAbort)
    }
    const abandon = () => {
      forget()
      abort(id)
    }
    const events = new EventQueue<Event>(abandon, join)
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
    const handle = (message: Answer | RequestEvents) => {
      const taken = take(message)
      if (taken !== null) {
        events.push(taken.events)
        if (!taken.last) return
        events.end()
        forget()
      } else if (!('type' in message)) return
      else if (message.type === 'admitted') resolve(admit(message.prompts, events))
      else if (message.type === 'error') fail(toApiError(message.error))
      else if (message.type === 'started') {
        trace?.started()
        onBegun?.()
      } else if (message.type === 'encoded') trace?.encoded(message.ms)
    }
    this.#calls.set(id, { handle, fail })
    return { id, answer }
  }

  /**
   * Registers a call with one answer.
   * @param read the answer in a message; null for another message.
   * @param caller absent if nothing ends the call early.
   */
  add<Result>(read: (message: Answer) => Result | null, caller?: Caller): Registered<Result> {
    const id = ++this.#lastId
    const { promise: answer, resolve, reject } = Promise.withResolvers<Result>()
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
    for (const message of requests) this.#calls.get(message.id)?.handle(message)
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
