/** A part of the evaluation, over a server of the shipped model. */
export interface Evaluation {
  readonly url: string
  readonly key: string
  /** Arguments of the command line. */
  readonly args: readonly string[]
  /** Runs a command of `training/`. @returns its exit code. */
  train(args: readonly string[]): Promise<number>
}

export const MODEL = 'service-mk1.5'
