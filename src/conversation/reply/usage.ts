import type { ServedModel } from '../../inference/catalog/registry.ts'
import type { Generation, PromptUsage } from '../../inference/contract/generation.ts'
import { internalError } from '../../lib/errors/errors.ts'
import { sumOf } from '../../lib/sum.ts'

export interface Usage {
  readonly promptTokens: number
  readonly completionTokens: number
  /** Prompt tokens of images and videos. */
  readonly imageTokens: number
  /** Null for a model without audio input. */
  readonly audioTokens: number | null
  /**
   * Completion tokens that are reasoning. The token that ends a thought counts as part of the reply. The number is too low
   * if an engine does not report single tokens.
   */
  readonly reasoningTokens: number
}

/** Returns the usage of a generation from the counts of its completions. */
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

/** Returns the usage of the prompts of all branches. */
export function totalPrompt(prompts: readonly PromptUsage[]): PromptUsage {
  return {
    promptTokens: sumOf(prompts, ({ promptTokens }) => promptTokens),
    imageTokens: sumOf(prompts, ({ imageTokens }) => imageTokens),
    audioTokens: sumOf(prompts, ({ audioTokens }) => audioTokens),
    cachedTokens: sumOf(prompts, ({ cachedTokens }) => cachedTokens),
  }
}

/**
 * Returns the usage of prompts that share their first `sharedTokens` tokens. These count as cached for every prompt but
 * one; tokens that the engine cached for earlier requests do not count.
 */
export function sharedPromptUsage(prompts: readonly PromptUsage[], sharedTokens: number): PromptUsage {
  const cachedTokens = sumOf(prompts.slice(1), (prompt) => Math.min(sharedTokens, prompt.cachedTokens))
  return { ...totalPrompt(prompts), cachedTokens }
}

/** Returns the usage of several replies to one prompt, which counts once. */
export function totalUsage(finishes: readonly { readonly usage: Usage }[]): Usage {
  return {
    ...finishes[0]!.usage,
    completionTokens: sumOf(finishes, ({ usage }) => usage.completionTokens),
    reasoningTokens: sumOf(finishes, ({ usage }) => usage.reasoningTokens),
  }
}

/** Returns the usage of several replies, each to its own prompt. */
export function usageOfAll(finishes: readonly { readonly usage: Usage }[]): Usage {
  const usages = finishes.map(({ usage }) => usage)
  return {
    ...totalUsage(finishes),
    promptTokens: sumOf(usages, ({ promptTokens }) => promptTokens),
    imageTokens: sumOf(usages, ({ imageTokens }) => imageTokens),
    audioTokens: usages[0]!.audioTokens === null ? null : sumOf(usages, ({ audioTokens }) => audioTokens ?? 0),
  }
}
