import { pickRated, ServerFailure, type TokenRating } from '../wire/wire.ts'

/** Log-probabilities of the tokens of a line, as vLLM writes them (`vllm/entrypoints/scale_out/token_in_token_out`). */
export interface LogProbs {
  readonly content?: readonly (Ranked & { readonly top_logprobs?: readonly Ranked[] })[]
}

interface Ranked {
  /** Newer releases send the number itself instead of `token_id:NUMBER`. */
  readonly token_id?: number
  readonly token?: string
  readonly logprob: number
  /** 1 for the likeliest token. */
  readonly rank?: number | null
}

/** vLLM's value for minus infinity, for example for tokens that a grammar forbids. */
const LEAST = -9999

/** @throws ServerFailure if their number differs from that of the tokens. */
export function ratingsOf(logProbs: LogProbs | null | undefined, tokens: number): readonly TokenRating[] {
  return contentOf(logProbs, tokens).map(({ logprob, rank, top_logprobs: top = [] }) => {
    // The chosen token comes first, then the others by rank.
    const possible = top
      .filter((ranked) => ranked.logprob > LEAST)
      .map((ranked) => ({ token: idOf(ranked), logProb: ranked.logprob }))
      .sort((a, b) => b.logProb - a.logProb)
    // While another request in the same batch has `logprob_token_ids`, some servers report only the chosen token.
    const isAlone = possible.length === 1 && (rank ?? 1) > 1
    return { logProb: logprob, top: isAlone ? [] : possible }
  })
}

/**
 * Log-probabilities of the requested tokens at the first position.
 * @throws ServerFailure if one is missing.
 */
export function ratedTokens(
  logProbs: LogProbs | null | undefined,
  asked: readonly number[],
): ReadonlyMap<number, number> {
  const [first] = contentOf(logProbs, 1)
  const told = (first!.top_logprobs ?? []).map((ranked) => {
    return [idOf(ranked), ranked.logprob > LEAST ? ranked.logprob : Number.NEGATIVE_INFINITY] as const
  })
  return pickRated(told, asked, 'it does not know logprob_token_ids')
}

/** @throws ServerFailure if their number differs from that of the tokens. */
function contentOf(logProbs: LogProbs | null | undefined, tokens: number): NonNullable<LogProbs['content']> {
  const content = logProbs?.content ?? []
  if (content.length < tokens) throw new ServerFailure('log_probs', 'it sent tokens without log-probabilities')
  return content.slice(0, tokens)
}

function idOf({ token_id: id, token = '' }: Ranked): number {
  return id ?? Number(token.slice(token.indexOf(':') + 1))
}
