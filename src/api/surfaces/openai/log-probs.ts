import type { ReplyFinish } from '../../../conversation/reply/reply.ts'
import type { TokenLogProb } from '../../../inference/contract/generation.ts'
import type { LogProbsBody } from './wire/chat-response.ts'

/** OpenAI's number for minus infinity, which JSON lacks. */
const LEAST = -9999

/**
 * Converts the log-probabilities of a reply, or of a piece of one.
 * @param places those of the whole reply, at its end.
 */
export function toLogProbs(tokens: readonly TokenLogProb[], places?: ReplyFinish['places']): LogProbsBody {
  return {
    content: tokens.map((token) => ({ ...toToken(token), top_logprobs: token.top.map(toToken) })),
    refusal: null,
    ...(places && { annotations: places.map(({ mention, confidence }) => ({ mention, confidence })) }),
  }
}

function toToken({ text, logProb, bytes }: Omit<TokenLogProb, 'top'>) {
  return { token: text, logprob: finite(logProb), bytes: [...bytes] }
}

/** Converts a log-probability to a number that JSON has. */
export function finite(logProb: number): number {
  return Math.max(logProb, LEAST)
}
