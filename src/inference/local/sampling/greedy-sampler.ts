import { type Ask, LIKELIEST } from '../native/choice.ts'
import type { FreeSampler, Rows } from './sampler.ts'

/** Chooses the likeliest token; of equally likely ones, the lowest. Earlier tokens do not matter. */
export class GreedySampler implements FreeSampler {
  ask(_ahead?: readonly number[], allowed?: Int32Array): Ask {
    return allowed === undefined ? LIKELIEST : { ...LIKELIEST, allowed }
  }

  sample(rows: Rows, row: number, allowed?: Int32Array): number {
    return this.choose(rows, row, allowed)
  }

  choose(rows: Rows, row: number, allowed?: Int32Array): number {
    return rows.choose(row, this.ask([], allowed)).token
  }

  accept(): void {}
}
