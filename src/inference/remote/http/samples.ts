import { sumOf } from '../../../lib/sum.ts'

/** Metrics of a server in Prometheus' text format. */
export class Samples {
  readonly #samples: readonly { readonly name: string; readonly labels: string; readonly value: number }[]

  constructor(text: string) {
    this.#samples = [...text.matchAll(SAMPLE)].map(({ groups }) => ({
      name: groups!.name!,
      labels: groups!.labels ?? '',
      value: Number(groups!.value),
    }))
  }

  /** The engines of one server (data parallelism) are summed. */
  sum(name: string): number {
    return sumOf(this.#of(name), ({ value }) => value)
  }

  mean(name: string): number {
    const { length } = this.#of(name)
    return length === 0 ? 0 : this.sum(name) / length
  }

  /** Sums a value computed from the labels of each sample; values that are not numbers are ignored. */
  sumOfLabels(name: string, compute: (label: (name: string) => number) => number): number {
    const values = this.#of(name).map(({ labels }) => compute((label) => labelOf(labels, label)))
    return sumOf(values.filter(Number.isFinite), (value) => value)
  }

  #of(name: string) {
    return this.#samples.filter((sample) => sample.name === name)
  }
}

const SAMPLE = /^(?<name>[a-zA-Z_:][\w:]*)(?:\{(?<labels>.*)\})? (?<value>\S+)(?: \d+)?$/gm

function labelOf(labels: string, name: string): number {
  return Number(new RegExp(`(?:^|,)${name}="([^"]*)"`).exec(labels)?.[1] ?? Number.NaN)
}
