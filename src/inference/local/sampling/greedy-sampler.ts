import { likeliestToken } from '../../constraints/token-mask.ts'
import type { Context } from '../native/context.ts'
import type { FreeSampler } from './sampler.ts'

/**
 * Chooses the likeliest token, the lowest of those that are equally likely, as llama.cpp's own chain does. That copies the
 * whole vocabulary before it looks at it, and would need a copy of the logits beside a constraint.
 */
export class GreedySampler implements FreeSampler {
  sample(context: Pick<Context, 'logits' | 'likeliest'>, row: number, allowed?: Int32Array): number {
    return context.likeliest(row, allowed) ?? likeliestToken(context.logits(row), allowed)
  }

  /** What was chosen before does not matter. */
  accept(): void {}

  close(): void {}
}
