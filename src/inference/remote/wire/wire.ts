import type { RgbImage } from '../../../media/pixels.ts'
import type { TokenLogProb } from '../../contract/generation.ts'
import type { Sampling } from '../../contract/work.ts'

/** What goes with a request for completions. */
export interface Call {
  /** Aborting it ends the completions on the server. */
  readonly signal: AbortSignal
  /** They continue the trace of the work; absent where that is not traced. */
  readonly headers?: Readonly<Record<string, string>> | undefined
}

/**
 * How completions are asked of a server of another engine. One object serves all servers of a model.
 * @template Request what it is asked: by tokens, unless the wire says otherwise.
 */
export interface Wire<Request = CompletionRequest> {
  /**
   * For servers that decode the tokens of a prompt with pictures and read its text again, in which a client's words could
   * become control tokens: what they take for a picture besides. Null for servers that take tokens as they are.
   */
  readonly rereads: { readonly marks: readonly string[] } | null
  /**
   * Checks that the server has the model, with the same tokenizer and enough context.
   * @throws ServerFailure: `lost` when it does not answer, `wrong` when it is not what the card says.
   */
  verify(url: string, signal: AbortSignal): Promise<void>
  /** @throws ServerFailure when the server cannot take work. */
  checkHealth(url: string, signal: AbortSignal): Promise<void>
  /**
   * Why the server cannot give log-probabilities as the engine promises them, before temperature and penalties; null where it
   * can.
   */
  logProbProblem(sampling: Sampling): string | null
  /**
   * Asks for completions of one prompt.
   * @throws ServerFailure
   */
  complete(url: string, request: Request, call: Call): AsyncIterable<WireEvent>
  /** What the server says of its load. @throws ServerFailure */
  load(url: string, signal: AbortSignal): Promise<ServerLoad>
  close(): Promise<void>
}

export interface TokenWire extends Wire {
  /** Tokens whose log-probabilities one request can ask for. */
  readonly mostRatedTokens: number
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
  /** Whether its completions are read only at their end: they may come in larger pieces. */
  readonly whole: boolean
  /** How many of the likeliest tokens are told beside each; null without log-probabilities. */
  readonly topLogProbs: number | null
  /**
   * Tokens whose log-probabilities are told with the first token, likely or not: at most the wire's `mostRatedTokens`. Such a
   * request generates one token, which is not read and which no stop sequence ends. Null for other requests.
   */
  readonly ratedTokens: readonly number[] | null
}

export interface Picture {
  /** Identifies the pixels. */
  readonly key: string
  readonly image: RgbImage
}

export type WireEvent = CachedEvent | PieceEvent | UsageEvent

/** The server finds the prompt in its caches from now on, also for requests that come before it has computed it. */
export interface CachedEvent {
  readonly type: 'cached'
}

/** A piece of a completion. */
export type PieceEvent = TokensEvent | TextPieceEvent

export interface TokensEvent {
  readonly type: 'tokens'
  readonly completion: number
  /** Without the one that ended it. */
  readonly tokens: readonly number[]
  /** Ratings of the tokens, where they were asked for. */
  readonly ratings?: readonly TokenRating[]
  /** The token that ended it, rated, where the ratings were asked for and the server tells. */
  readonly ending?: RatedToken
  /** Log-probabilities of the request's `ratedTokens`. */
  readonly rated?: ReadonlyMap<number, number>
  /** Why the completion is over; null when it goes on. */
  readonly end: 'stop' | 'length' | null
}

interface TextPieceEvent {
  readonly type: 'text'
  readonly completion: number
  /** Text of a thought, which the server has separated from the reply; it may be empty, as the text may be. */
  readonly thought: string
  readonly text: string
  /** Log-probabilities of the tokens behind it, where they were asked for. */
  readonly logProbs?: readonly TokenLogProb[]
  /** What the server calls what its numbers depend on, where it does. */
  readonly fingerprint?: string
  readonly end: 'stop' | 'length' | null
}

/** How likely a token was, and which others were likely, in descending order. */
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
  /** Prompt tokens that were in the server's cache; null when the server does not say. */
  readonly cachedTokens: number | null
  /** Tokens of all completions of the request, where those do not come as tokens. */
  readonly completionTokens?: number
  /** How many of them are thoughts'; null when the server does not say. */
  readonly reasoningTokens?: number | null
}

export interface ServerLoad {
  readonly running: number
  readonly waiting: number
  /** The share of the KV cache in use, from 0 to 1, and its tokens. */
  readonly kvUsage: number
  readonly kvTokens: number
  readonly preemptions: number
}

/**
 * `lost`: it does not answer, or has failed. `busy`: it takes no more work now. `wrong`: it is not what the card says it is.
 * `grammar`: it cannot follow the constraint. `long`: prompt and completion do not fit its context.
 * `log_probs`: it gives no log-probabilities. `rejected`: it does not take the conversation. `refused`: it does not accept the request, which is a fault of this server.
 */
export type FailureKind = 'lost' | 'busy' | 'wrong' | 'grammar' | 'long' | 'log_probs' | 'rejected' | 'refused'

/**
 * Log-probabilities of the tokens that were asked for, of those that a server told.
 * @throws ServerFailure with the message where one is missing.
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
 * How a completion has ended, by the reason that a server gives; null when it goes on.
 * @throws ServerFailure for one that the server gave up: it is not whole.
 */
export function endOf(reason: string | null | undefined): 'stop' | 'length' | null {
  // Some servers write an empty reason into each line.
  if (!reason) return null
  if (reason === 'abort' || reason === 'error')
    throw new ServerFailure('lost', `it ended a completion with '${reason}'`)
  return reason === 'length' ? 'length' : 'stop'
}

/** Why a server did not do what it was asked. Its message is for the log, not for clients. */
export class ServerFailure extends Error {
  override readonly name = 'ServerFailure'
  readonly kind: FailureKind
  /** When the server wants to be asked again; null where it does not say. */
  retrySeconds: number | null = null

  constructor(kind: FailureKind, message: string, cause?: unknown) {
    super(message, { cause })
    this.kind = kind
  }
}
