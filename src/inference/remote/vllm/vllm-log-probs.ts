import { ServerFailure, type TokenRating } from '../wire/wire.ts'

/** Log-probabilities of the tokens of a line, as vLLM writes them (`vllm/entrypoints/scale_out/token_in_token_out`). */
export interface LogProbs {
  readonly content?: readonly (Ranked & { readonly top_logprobs?: readonly Ranked[] })[]
}

interface Ranked {
  /** Newer releases give the number itself, in place of `token_id:NUMBER`. */
  readonly token_id?: number
  readonly token?: string
  readonly logprob: number
}

/** What vLLM writes for minus infinity, as for tokens that a grammar forbids. */
const LEAST = -9999

/** @throws ServerFailure where there are not as many as tokens. */
export function ratingsOf(logProbs: LogProbs | null | undefined, tokens: number): readonly TokenRating[] {
  const content = logProbs?.content ?? []
  if (content.length < tokens) throw new ServerFailure('log_probs', 'it sent tokens without log-probabilities')
  return content.slice(0, tokens).map(({ logprob, top_logprobs: top = [] }) => ({
    logProb: logprob,
    // The chosen token comes first, the others by their rank.
    top: top
      .filter((ranked) => ranked.logprob > LEAST)
      .map((ranked) => ({ token: idOf(ranked), logProb: ranked.logprob }))
      .sort((a, b) => b.logProb - a.logProb),
  }))
}

function idOf({ token_id: id, token = '' }: Ranked): number {
  return id ?? Number(token.slice(token.indexOf(':') + 1))
}
