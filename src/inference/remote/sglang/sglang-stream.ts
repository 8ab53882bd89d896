import { pickRated, ServerFailure, type TokenRating, type TokensEvent, type WireEvent } from '../wire/wire.ts'

/** A line of a stream. Not validated against a schema, because it is parsed for every token. */
export interface Chunk {
  /** Index of the completion, if there are several. */
  readonly index?: number
  readonly output_ids?: readonly number[]
  readonly meta_info?: {
    readonly prompt_tokens?: number
    readonly completion_tokens?: number
    readonly cached_tokens?: number
    readonly finish_reason?: FinishReason | null
    /** Log-probabilities of all tokens so far, or only of the new ones, like the tokens. */
    readonly output_token_logprobs?: readonly Ranked[]
    /** Alternatives for each of them. */
    readonly output_top_logprobs?: readonly (readonly Ranked[] | null)[]
    /** Log-probabilities of the requested tokens, at each position. */
    readonly output_token_ids_logprobs?: readonly (readonly Ranked[] | null)[]
  }
  readonly error?: { readonly message: string; readonly code?: number | null }
}

type Meta = NonNullable<Chunk['meta_info']>

/** A log-probability, the token, and its text. */
type Ranked = readonly [logProb: number | null, token: number, text?: string | null]

interface FinishReason {
  readonly type: string
  readonly matched?: unknown
  readonly message?: string
  readonly status_code?: number | null
}

interface StreamRules {
  /** Number of completions. */
  readonly n: number
  /** Tokens that end a completion. */
  readonly stopTokens: readonly number[]
  /** Number of likeliest tokens requested for each token; null for no log-probabilities. */
  readonly topLogProbs: number | null
  /** Tokens whose log-probabilities were requested; null for none. */
  readonly ratedTokens: readonly number[] | null
  failureOf(status: number, message: string): ServerFailure
}

/** The end of a completion whose numbers overflowed, as SGLang reports it. */
const NOT_A_NUMBER = 'NaN happened'

/** Parses the chunks of one response. */
export class StreamReader {
  readonly #rules: StreamRules
  readonly #stop: ReadonlySet<number>
  /** Number of tokens so far, by completion that has not ended. */
  readonly #running: Map<number, number>
  #hasUsage = false

  constructor(rules: StreamRules) {
    this.#rules = rules
    this.#stop = new Set(rules.stopTokens)
    this.#running = new Map(Array.from({ length: rules.n }, (_, completion) => [completion, 0]))
  }

  /** Whether all completions have ended. */
  get isWhole(): boolean {
    return this.#running.size === 0
  }

  /** @throws ServerFailure for a chunk that reports an error. */
  *read({ index = 0, output_ids: ids = [], meta_info: meta = {}, error }: Chunk): Generator<WireEvent, void, void> {
    if (error !== undefined) throw this.#rules.failureOf(error.code ?? 500, error.message)
    const before = this.#running.get(index)
    if (before === undefined) return
    const end = this.#endOf(meta.finish_reason ?? null)
    if (!this.#hasUsage && meta.prompt_tokens !== undefined) {
      this.#hasUsage = true
      // For several completions, the server first computes the prompt by itself and then finds it in its cache for each
      // one.
      const cachedTokens = this.#rules.n === 1 ? (meta.cached_tokens ?? null) : null
      yield { type: 'usage', promptTokens: meta.prompt_tokens, cachedTokens }
    }
    // All tokens of the completion so far; only the new ones with --incremental-streaming-output.
    const isAll = ids.length >= (meta.completion_tokens ?? 0)
    const all = isAll ? ids.slice(before) : ids
    if (end === null) this.#running.set(index, before + all.length)
    else this.#running.delete(index)
    const tokens = end === 'stop' && this.#stop.has(all.at(-1)!) ? all.slice(0, -1) : all
    yield { type: 'tokens', completion: index, tokens, ...this.#logProbs(meta, before, all, tokens.length), end }
  }

  /** @param wanted number of new tokens before the one that ended the completion. */
  #logProbs(
    meta: Meta,
    before: number,
    all: readonly number[],
    wanted: number,
  ): Pick<TokensEvent, 'ratings' | 'ending' | 'rated'> {
    const { topLogProbs, ratedTokens } = this.#rules
    if (ratedTokens !== null) return wanted === 0 ? {} : { rated: rated(meta, ratedTokens) }
    if (topLogProbs === null) return {}
    const told = meta.output_token_logprobs?.length ?? 0
    const isTold = all.length > wanted && [all.length, before + all.length].includes(told)
    const ratings = ratingsOf(meta, before, isTold ? all.length : wanted)
    return {
      ratings: ratings.slice(0, wanted),
      ...(isTold ? { ending: { token: all.at(-1)!, ...ratings.at(-1)! } } : {}),
    }
  }

  #endOf(reason: FinishReason | null): 'stop' | 'length' | null {
    if (reason === null) return null
    if (reason.type === 'abort') {
      const message = reason.message ?? 'it gave the request up'
      if (reason.status_code == null) throw new ServerFailure('lost', message)
      throw this.#rules.failureOf(reason.status_code, message)
    }
    if (reason.matched === NOT_A_NUMBER) throw new ServerFailure('lost', 'it computed NaN')
    return reason.type === 'length' ? 'length' : 'stop'
  }
}

/**
 * Log-probabilities of the requested tokens at the first position.
 * @throws ServerFailure if one is missing.
 */
function rated(
  { output_token_ids_logprobs: [first] = [] }: Meta,
  asked: readonly number[],
): ReadonlyMap<number, number> {
  const told = (first ?? []).map(([logProb, token]) => [token, logProb ?? Number.NEGATIVE_INFINITY] as const)
  return pickRated(told, asked, 'it sent no token_ids_logprob')
}

/** @throws ServerFailure if their number differs from that of the new tokens. */
function ratingsOf(meta: Meta, before: number, count: number): readonly TokenRating[] {
  const { output_token_logprobs: chosen = [], output_top_logprobs: top = [] } = meta
  const start = chosen.length >= before + count ? before : 0
  if (chosen.length < start + count) throw new ServerFailure('log_probs', 'it sent tokens without log-probabilities')
  return Array.from({ length: count }, (_, at) => ({
    logProb: chosen[start + at]![0] ?? Number.NEGATIVE_INFINITY,
    top: (top[start + at] ?? []).flatMap(([logProb, token]) =>
      logProb === null || !Number.isFinite(logProb) ? [] : [{ token, logProb }],
    ),
  }))
}
