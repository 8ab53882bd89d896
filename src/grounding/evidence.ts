/** How sure a model was of a place as it wrote it, each 0..1. */
export interface PlaceEvidence {
  /** The chance that something begins here rather than that the list ends. */
  readonly begin: number
  /** The mass of numbers that lie near those that were written. */
  readonly near: number
  /** The geometric mean of the probabilities of the tokens. */
  readonly mean: number
}
