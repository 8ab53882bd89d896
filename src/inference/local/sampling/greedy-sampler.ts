import type { FreeSampler, Rows } from './sampler.ts'

/** Chooses the likeliest token, the lowest of those that are equally likely. */
export class GreedySampler implements FreeSampler {
  sample(rows: Rows, row: number, allowed?: Int32Array): number {
    return rows.operations.likeliest(rows.logits(row), allowed)
  }

  /** What was chosen before does not matter. */
  accept(): void {}
}
