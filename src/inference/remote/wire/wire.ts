import type { RgbImage } from '../../../media/pixels.ts'
import type { Sampling } from '../../engine.ts'

/** How completions are asked of a server of another engine. One object serves all servers of a model. */
export interface Wire {
  /**
   * Checks that the server has the model, with the same tokenizer and enough context.
   * @throws ServerFailure: `lost` when it does not answer, `wrong` when it is not what the card says.
   */
  verify(url: string, signal: AbortSignal): Promise<void>
  /** @throws ServerFailure when the server cannot take work. */
  checkHealth(url: string, signal: AbortSignal): Promise<void>
  /**
   * Asks for completions of one prompt. Aborting the signal ends them on the server.
   * @throws ServerFailure
   */
  complete(url: string, request: CompletionRequest, signal: AbortSignal): AsyncIterable<WireEvent>
  /** What the server says of its load. @throws ServerFailure */
  load(url: string, signal: AbortSignal): Promise<ServerLoad>
  close(): Promise<void>
}

export interface CompletionRequest {
  /** Names it in the server's logs. */
  readonly id: string
  /** The prompt, with one token in place of each picture. */
  readonly tokens: readonly number[]
  readonly pictures: readonly Picture[]
  /** How many completions. */
  readonly n: number
  readonly maxTokens: number
  readonly sampling: Sampling
  /** Tokens that end a completion. */
  readonly stopTokens: readonly number[]
  /** A text that ends a completion; the tokens that it is in belong to the completion. */
  readonly stopText: string | null
  /** In the EBNF of XGrammar; null for free text. */
  readonly grammar: string | null
  /** Whose caches may be used: those of no other organisation. */
  readonly cacheSalt: string
}

export interface Picture {
  /** Identifies the pixels. */
  readonly key: string
  readonly image: RgbImage
}

export type WireEvent =
  /** The server finds the prompt in its caches from now on, also for requests that come before it has computed it. */
  | { readonly type: 'cached' }
  | {
      readonly type: 'tokens'
      readonly completion: number
      /** Without the one that ended it. */
      readonly tokens: readonly number[]
      /** Why the completion is over; null when it goes on. */
      readonly end: 'stop' | 'length' | null
    }
  | {
      readonly type: 'usage'
      readonly promptTokens: number
      /** Prompt tokens that were in the server's cache; null when the server does not say. */
      readonly cachedTokens: number | null
    }

export interface ServerLoad {
  readonly running: number
  readonly waiting: number
  /** The share of the KV cache in use, from 0 to 1, and its tokens. */
  readonly kvUsage: number
  readonly kvTokens: number
  readonly preemptions: number
  readonly prefixHitTokens: number
}

/**
 * `lost`: it does not answer, or has failed. `busy`: it takes no more work now. `wrong`: it is not what the card says it is.
 * `grammar`: it cannot follow the constraint. `refused`: it does not accept the request, which is a fault of this server.
 */
export type FailureKind = 'lost' | 'busy' | 'wrong' | 'grammar' | 'refused'

/** Why a server did not do what it was asked. Its message is for the log, not for clients. */
export class ServerFailure extends Error {
  override readonly name = 'ServerFailure'
  readonly kind: FailureKind

  constructor(kind: FailureKind, message: string, cause?: unknown) {
    super(message, { cause })
    this.kind = kind
  }
}
