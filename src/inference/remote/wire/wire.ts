import type { RgbImage } from '../../../media/pixels.ts'
import type { TokenLogProb } from '../../contract/generation.ts'
import type { Sampling } from '../../contract/work.ts'

/** Sent along with a request for completions. */
export interface Call {
  /** Aborting it ends the completions on the server. */
  readonly signal: AbortSignal
  /** Headers that continue the trace of the work; absent if the work is not traced. */
  readonly headers?: Readonly<Record<string, string>> | undefined
}

/**
 * How completions are requested from another engine's servers. One object serves all servers of a model.
 * @template Request the request: in tokens, unless the wire says otherwise.
 */
export interface Wire<Request = CompletionRequest> {
  /**
   * For servers that decode the tokens of a prompt with pictures and tokenise its text again, so that a client's words
   * could become control tokens: further texts that they treat as pictures. Null for servers that use tokens as they
   * are.
   */
  readonly rereads: { readonly marks: readonly string[] } | null
  /**
   * Checks that the server has the model, with the same tokenizer and enough context.
   * @throws ServerFailure: `lost` if it does not respond, `wrong` if it does not match the card.
   */
  verify(url: string, signal: AbortSignal): Promise<void>
  /** @throws ServerFailure if the server cannot take work. */
  checkHealth(url: string, signal: AbortSignal): Promise<void>
  /**
   * Why the server cannot return the log-probabilities that the engine promises, before temperature and penalties; null
   * if it can.
   */
  logProbProblem(sampling: Sampling): string | null
  /**
   * Requests completions of one prompt.
   * @throws ServerFailure
   */
  complete(url: string, request: Request, call: Call): AsyncIterable<WireEvent>
  /**
   * The load that the server reports.
   * @throws ServerFailure
   */
  load(url: string, signal: AbortSignal): Promise<ServerLoad>
  close(): Promise<void>
}

export interface TokenWire extends Wire {
  /** Maximum tokens whose log-probabilities one request can ask for. */
  readonly mostRatedTokens: number
}

export interface CompletionRequest {
  /** Identifies the request in the server's logs. */
  readonly id: string
  /** The prompt, with one token in place of each picture. */
  readonly tokens: readonly number[]
  readonly pictures: readonly Picture[]
  /** Number of completions. */
  readonly n: number
  readonly maxTokens: number
  readonly sampling: Sampling
  /** Tokens that end a completion. */
  readonly stopTokens: readonly number[]
  /** A text that ends a completion; its tokens belong to the completion. */
  readonly stopText: string | null
  /** In the EBNF of XGrammar; null for free text. */
  readonly grammar: string | null
  /** Separates the caches of organisations. */
  readonly cacheSalt: string
  /** Whether its completions are read only at their end: they may arrive in larger pieces. */
  readonly whole: boolean
  /** Number of likeliest tokens to report beside each token; null for no log-probabilities. */
  readonly topLogProbs: number | null
  /**
   * Tokens whose log-probabilities are reported with the first token, likely or not: at most the wire's
   * `mostRatedTokens`. Such a request generates one token, which is not used and which no stop sequence ends. Null for
   * other requests.
   */
  readonly ratedTokens: readonly number[] | null
}

export interface Picture {
  /** Identifies the pixels. */
  readonly key: string
  readonly image: RgbImage
}

export type WireEvent = CachedEvent | PieceEvent | UsageEvent

/** From now on, requests find the prompt in the server's caches, even those that arrive before it has been computed. */
export interface CachedEvent {
  readonly type: 'cached'
}

/** A piece of a completion. */
export type PieceEvent = TokensEvent | TextPieceEvent

export interface TokensEvent {
  readonly type: 'tokens'
  readonly completion: number
  /** Without the token that ended the completion. */
  readonly tokens: readonly number[]
  /** Ratings of the tokens, if requested. */
  readonly ratings?: readonly TokenRating[]
  /** The token that ended the completion, with its rating, if requested and if the server reports it. */
  readonly ending?: RatedToken
  /** Log-probabilities of the request's `ratedTokens`. */
  readonly rated?: ReadonlyMap<number, number>
  /** Why the completion has ended; null if it goes on. */
  readonly end: 'stop' | 'length' | null
}

interface TextPieceEvent {
  readonly type: 'text'
  readonly completion: number
  /** Text of a thought, which the server has separated from the reply; may be empty, as `text` may. */
  readonly thought: string
  readonly text: string
  /** Log-probabilities of the text's tokens, if requested. */
  readonly logProbs?: readonly TokenLogProb[]
  /** The fingerprint that the server reports for what its numbers depend on, if any. */
  readonly fingerprint?: string
  readonly end: 'stop' | 'length' | null
}

/** The log-probability of a token, and likely alternatives, in descending order. */
export interface TokenRating {
  /** Natural logarithm of its probability. */
  readonly logProb: number
  readonly top: readonly { readonly token: number; readonly logProb: number }[]
}

export interface RatedToken extends TokenRating {
  readonly token: number
}

export interface UsageEvent {
  readonly type: 'usage'
  readonly promptTokens: number
  /** Prompt tokens that were in the server's cache; null if the server does not report them. */
  readonly cachedTokens: number | null
  /** Tokens of all completions of the request, if they arrive as text. */
  readonly completionTokens?: number
  /** The number of them in thoughts; null if the server does not report it. */
  readonly reasoningTokens?: number | null
}

export interface ServerLoad {
  readonly running: number
  readonly waiting: number
  /** The used share of the KV cache, from 0 to 1, and its total tokens. */
  readonly kvUsage: number
  readonly kvTokens: number
  readonly preemptions: number
}

/**
 * `lost`: it does not respond, or has failed. `busy`: it accepts no more work now. `wrong`: it does not match the card.
 * `grammar`: it cannot enforce the constraint. `long`: prompt and completion do not fit its context. `log_probs`: it
 * returns no log-probabilities. `rejected`: it does not accept the conversation. `refused`: it does not accept the
 * request, which is a bug in this server.
 */
export type FailureKind = 'lost' | 'busy' | 'wrong' | 'grammar' | 'long' | 'log_probs' | 'rejected' | 'refused'

/**
 * The log-probabilities of the requested tokens among the reported ones.
 * @throws ServerFailure with the message if one is missing.
 */
export function pickRated(
  told: Iterable<readonly [token: number, logProb: number]>,
  asked: readonly number[],
  message: string,
): ReadonlyMap<number, number> {
  const known = new Map(told)
  return new Map(
    asked.map((token) => {
      const logProb = known.get(token)
      if (logProb === undefined) throw new ServerFailure('log_probs', message)
      return [token, logProb]
    }),
  )
}

/**
 * How a completion has ended, from the server's reason; null if it goes on.
 * @throws ServerFailure if the server gave up: the completion is incomplete.
 */
export function endOf(reason: string | null | undefined): 'stop' | 'length' | null {
  // Some servers send an empty reason in each line.
  if (!reason) return null
  if (reason === 'abort' || reason === 'error')
    throw new ServerFailure('lost', `it ended a completion with '${reason}'`)
  return reason === 'length' ? 'length' : 'stop'
}

/** Why a server failed to do what was requested. Its message is for the log, not for clients. */
export class ServerFailure extends Error {
  override readonly name = 'ServerFailure'
  readonly kind: FailureKind
  /** Seconds after which the server asks to be retried; null if it does not say. */
  retrySeconds: number | null = null

  constructor(kind: FailureKind, message: string, cause?: unknown) {
    super(message, { cause })
    this.kind = kind
  }
}
