import type { Sampling } from '../../../contract/work.ts'
import { ConstrainedSampler } from '../../sampling/constrained-sampler.ts'
import { DrawingSampler, penalisesRepetition } from '../../sampling/drawing-sampler.ts'
import { GreedySampler } from '../../sampling/greedy-sampler.ts'
import { LogProbSampler, type LogProbs } from '../../sampling/log-prob-sampler.ts'
import type { FreeSampler, TokenSampler } from '../../sampling/sampler.ts'
import { SeenTokens } from '../../sampling/seen-tokens.ts'
import { ThoughtSampler } from '../../sampling/thought-sampler.ts'
import type { PromptChunk } from '../../tokens/prompt-tokens.ts'
import type { AdmittedBranch, AdmittedWork } from '../admission.ts'
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
 * @param prompt the tokens of its prompt; null if they do not matter.
 */
export function createSampler(
  { model }: LoadedModel,
  { sampling, maxTokens, constraint, thought, topLogProbs }: AdmittedBranch,
  seed: number,
  prompt: SeenTokens | null,
): CompletionSampler {
  // May throw: the thread of the constraint may have ended.
  const matcher = constraint?.createMatcher() ?? null
  const chosen: FreeSampler = isPlainGreedy(sampling) ? new GreedySampler() : new DrawingSampler(sampling, seed, prompt)
  const logProbs = topLogProbs === null ? null : new LogProbSampler(chosen, model, topLogProbs)
  const free = logProbs ?? chosen
  const reply = matcher === null ? free : new ConstrainedSampler(free, matcher, model)
  const sampler = thought === null ? reply : new ThoughtSampler({ thought, maxTokens, model, free, reply })
  return { sampler, logProbs }
}

/**
 * The tokens of the prompts of a group's branches, in branch order; null for branches whose sampling does not need
 * them.
 */
export function promptsOf({ prefix, branches }: Pick<AdmittedWork, 'prefix' | 'branches'>): (SeenTokens | null)[] {
  let shared: SeenTokens | null = null
  return branches.map(({ sampling, suffix, lastToken }) => {
    if (!penalisesRepetition(sampling)) return null
    shared ??= new SeenTokens(null, textOf(prefix))
    const prompt = new SeenTokens(shared, textOf(suffix))
    prompt.add(lastToken)
    return prompt
  })
}

function* textOf(chunks: readonly PromptChunk[]): Generator<number, void, void> {
  for (const chunk of chunks) if (chunk.type === 'text') yield* chunk.tokens
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
