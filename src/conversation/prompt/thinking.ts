import type { ThoughtMarks } from '../../families/family.ts'
import type { Thought } from '../../inference/contract/work.ts'
import type { ReasoningEffort } from '../request/reply-options.ts'
import type { Effort } from './chat-template.ts'

/** Most tokens of a thought by tier. The contract names the tiers and no numbers. */
const BUDGETS: Readonly<Record<Exclude<ReasoningEffort, 'none'>, number>> = {
  minimal: 256,
  low: 1024,
  medium: 2048,
  high: 4096,
}

/** A part of the reply that a thought leaves to the answer, however little the client allows for both. */
const ANSWER_SHARE = 1 / 4

/**
 * Most tokens of a thought when reasoning is on. A tier that says nothing about how much, because something else turned
 * reasoning on, counts as `medium`.
 */
export function thoughtBudget(effort: ReasoningEffort | null): number {
  return BUDGETS[effort === null || effort === 'none' ? 'medium' : effort]
}

/** What a template tells its model, where it tells it how much to think. */
export function effortOf(effort: ReasoningEffort | null): Effort | undefined {
  if (effort === null || effort === 'none') return undefined
  return effort === 'minimal' ? 'low' : effort
}

/** Replies of fewer tokens have no room for a thought, its marks and an answer: the model answers at once. */
export const FEWEST_TOKENS_TO_THINK = 16

/** What the engine is to know of a thought within a reply of at most `maxTokens`. */
export function thoughtWithin(maxTokens: number, budget: number, { end, closing }: ThoughtMarks): Thought {
  return { end, closing, budget: Math.min(budget, Math.floor(maxTokens * (1 - ANSWER_SHARE))) }
}
