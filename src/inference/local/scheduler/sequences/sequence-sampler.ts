import type { Sampling } from '../../../contract/work.ts'
import { ConstrainedSampler } from '../../sampling/constrained-sampler.ts'
import { DrawingSampler, penalisesRepetition } from '../../sampling/drawing-sampler.ts'
import { GreedySampler } from '../../sampling/greedy-sampler.ts'
import { LogProbSampler, type LogProbs } from '../../sampling/log-prob-sampler.ts'
import type { FreeSampler, TokenSampler } from '../../sampling/sampler.ts'
import { ThoughtSampler } from '../../sampling/thought-sampler.ts'
import type { PromptChunk } from '../../tokens/prompt-tokens.ts'
import type { AdmittedBranch } from '../admission.ts'
import type { LoadedModel } from '../loaded-model.ts'

/** The odd number nearest to 2^32 divided by the golden ratio (Fibonacci hashing): its multiples are distinct modulo 2^32. */
const SEED_STRIDE = 0x9e3779b9

export interface CompletionSampler {
  readonly sampler: TokenSampler
  /** Null if the request asks for no log-probabilities. */
  readonly logProbs: LogProbs | null
}

/**
 * The sampler of one completion: its sampling parameters, its constraint and its thought.
 * @param prefix the prompt before the branch's own.
 */
export function createSampler(
  { model }: LoadedModel,
  prefix: readonly PromptChunk[],
  branch: AdmittedBranch,
  seed: number,
): CompletionSampler {
  const { sampling, maxTokens, constraint, thought, topLogProbs } = branch
  // May throw: the thread of the constraint may have ended.
  const matcher = constraint?.createMatcher() ?? null
  const chosen: FreeSampler = isPlainGreedy(sampling) ? new GreedySampler() : drawing(sampling, seed, prefix, branch)
  const logProbs = topLogProbs === null ? null : new LogProbSampler(chosen, model, topLogProbs)
  const free = logProbs ?? chosen
  const reply = matcher === null ? free : new ConstrainedSampler(free, matcher, model)
  const sampler = thought === null ? reply : new ThoughtSampler({ thought, maxTokens, model, free, reply })
  return { sampler, logProbs }
}

function drawing(
  sampling: Sampling,
  seed: number,
  prefix: readonly PromptChunk[],
  { suffix, lastToken }: AdmittedBranch,
): DrawingSampler {
  if (!penalisesRepetition(sampling)) return new DrawingSampler(sampling, seed)
  const texts = [...prefix, ...suffix].flatMap((chunk) => (chunk.type === 'text' ? [...chunk.tokens] : []))
  return new DrawingSampler(sampling, seed, [...texts, lastToken])
}

/** Whether the token with the largest logit is always chosen, regardless of earlier tokens. */
function isPlainGreedy(sampling: Sampling): boolean {
  const { temperature, frequencyPenalty, presencePenalty } = sampling
  return temperature === 0 && frequencyPenalty === 0 && presencePenalty === 0 && !penalisesRepetition(sampling)
}

/** The seed of a completion, distinct within the group. */
export function seedOf(groupSeed: number, completion: number): number {
  return (groupSeed + Math.imul(completion, SEED_STRIDE)) >>> 0
}
