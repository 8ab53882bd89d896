import type { ServedModel } from '../../inference/catalog/registry.ts'
import type { Generation, PromptUsage } from '../../inference/contract/generation.ts'
import { internalError } from '../../lib/errors.ts'
import { sumOf } from '../../lib/sum.ts'

export interface Usage {
  readonly promptTokens: number
  readonly completionTokens: number
  /** Those of the prompt that stand for images and videos. */
  readonly imageTokens: number
  /** Null for a model without audio input. */
  readonly audioTokens: number | null
  /**
   * Those of the completion that are reasoning. The token that ends a thought counts as the reply's. They are too few where an
   * engine does not tell tokens apart.
   */
  readonly reasoningTokens: number
}

/** What a generation took, with what was counted of its completions. */
export function usageOf(
  { prompts }: Generation,
  { served }: ServedModel,
  completions: Pick<Usage, 'completionTokens' | 'reasoningTokens'>,
): Usage {
  if (prompts.length === 0) throw internalError(new Error('The engine reported no prompt usage'))
  const { promptTokens, imageTokens, audioTokens } = totalPrompt(prompts)
  const heard = served.modalities.includes('audio') ? audioTokens : null
  return { promptTokens, imageTokens, audioTokens: heard, ...completions }
}

/** What the prompts of all branches take. */
export function totalPrompt(prompts: readonly PromptUsage[]): PromptUsage {
  return {
    promptTokens: sumOf(prompts, ({ promptTokens }) => promptTokens),
    imageTokens: sumOf(prompts, ({ imageTokens }) => imageTokens),
    audioTokens: sumOf(prompts, ({ audioTokens }) => audioTokens),
    cachedTokens: sumOf(prompts, ({ cachedTokens }) => cachedTokens),
  }
}

/**
 * The same for prompts that begin with `sharedTokens` tokens. Those count as cached for every prompt but one; what the engine
 * cached for earlier requests does not count.
 */
export function sharedPromptUsage(prompts: readonly PromptUsage[], sharedTokens: number): PromptUsage {
  const cachedTokens = sumOf(prompts.slice(1), (prompt) => Math.min(sharedTokens, prompt.cachedTokens))
  return { ...totalPrompt(prompts), cachedTokens }
}

/** The usage of several replies to one prompt, which counts once. */
export function totalUsage(finishes: readonly { readonly usage: Usage }[]): Usage {
  return {
    ...finishes[0]!.usage,
    completionTokens: sumOf(finishes, ({ usage }) => usage.completionTokens),
    reasoningTokens: sumOf(finishes, ({ usage }) => usage.reasoningTokens),
  }
}

/** The usage of several replies, each to a prompt of its own. */
export function usageOfAll(finishes: readonly { readonly usage: Usage }[]): Usage {
  const usages = finishes.map(({ usage }) => usage)
  return {
    ...totalUsage(finishes),
    promptTokens: sumOf(usages, ({ promptTokens }) => promptTokens),
    imageTokens: sumOf(usages, ({ imageTokens }) => imageTokens),
    audioTokens: usages[0]!.audioTokens === null ? null : sumOf(usages, ({ audioTokens }) => audioTokens ?? 0),
  }
}
