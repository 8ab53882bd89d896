import type { Sampling } from '../../../contract/work.ts'
import { ConstrainedSampler } from '../../sampling/constrained-sampler.ts'
import { DrawingSampler } from '../../sampling/drawing-sampler.ts'
import { GreedySampler } from '../../sampling/greedy-sampler.ts'
import { LogProbSampler, type LogProbs } from '../../sampling/log-prob-sampler.ts'
import type { FreeSampler, TokenSampler } from '../../sampling/sampler.ts'
import { ThoughtSampler } from '../../sampling/thought-sampler.ts'
import type { AdmittedBranch } from '../admission.ts'
import type { LoadedModel } from '../loaded-model.ts'

/** The odd number nearest to 2^32 divided by the golden ratio (Fibonacci hashing): its multiples are distinct modulo 2^32. */
const SEED_STRIDE = 0x9e3779b9

export interface CompletionSampler {
  readonly sampler: TokenSampler
  /** Null if the request asks for no log-probabilities. */
  readonly logProbs: LogProbs | null
}

/** The sampler of one completion: its sampling parameters, its constraint and its thought. */
export function createSampler(
  { model }: LoadedModel,
  { sampling, maxTokens, constraint, thought, topLogProbs }: AdmittedBranch,
  seed: number,
): CompletionSampler {
  // May throw: the thread of the constraint may have ended.
  const matcher = constraint?.createMatcher() ?? null
  const chosen: FreeSampler = isPlainGreedy(sampling) ? new GreedySampler() : new DrawingSampler(sampling, seed)
  const logProbs = topLogProbs === null ? null : new LogProbSampler(chosen, model, topLogProbs)
  const free = logProbs ?? chosen
  const reply = matcher === null ? free : new ConstrainedSampler(free, matcher, model)
  const sampler = thought === null ? reply : new ThoughtSampler({ thought, maxTokens, model, free, reply })
  return { sampler, logProbs }
}

/** Whether the token with the largest logit is always chosen, regardless of earlier tokens. */
function isPlainGreedy({ temperature, frequencyPenalty, presencePenalty }: Sampling): boolean {
  return temperature === 0 && frequencyPenalty === 0 && presencePenalty === 0
}

/** The seed of a completion, distinct within the group. */
export function seedOf(groupSeed: number, completion: number): number {
  return (groupSeed + Math.imul(completion, SEED_STRIDE)) >>> 0
}
