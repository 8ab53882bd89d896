import type { ThoughtMarks } from '../../families/family.ts'
import type { Thought } from '../../inference/contract/work.ts'
import type { ReasoningEffort } from '../request/reply-options.ts'
import type { Effort } from './chat-template.ts'

/** Maximum tokens of a thought by tier. The contract names the tiers without numbers. */
const BUDGETS: Readonly<Record<Exclude<ReasoningEffort, 'none'>, number>> = {
  minimal: 256,
  low: 1024,
  medium: 2048,
  high: 4096,
}

/** The share of the reply that a thought leaves for the answer, even under a small token limit. */
const ANSWER_SHARE = 1 / 4

/**
 * Maximum tokens of a thought when reasoning is on. If something other than a tier turned reasoning on, it is the
 * budget of `medium`.
 */
export function thoughtBudget(effort: ReasoningEffort | null): number {
  return BUDGETS[effort === null || effort === 'none' ? 'medium' : effort]
}

/** The effort for templates that tell the model how much to think. */
export function effortOf(effort: ReasoningEffort | null): Effort | undefined {
  if (effort === null || effort === 'none') return undefined
  return effort === 'minimal' ? 'low' : effort
}

/** A shorter reply has no room for a thought, its marks and an answer, so the model answers at once. */
export const FEWEST_TOKENS_TO_THINK = 16

/** The engine's parameters for a thought within a reply of at most `maxTokens`. */
export function thoughtWithin(maxTokens: number, budget: number, { end, closing }: ThoughtMarks): Thought {
  return { end, closing, budget: Math.min(budget, Math.floor(maxTokens * (1 - ANSWER_SHARE))) }
}
