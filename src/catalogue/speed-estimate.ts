import type { MachineSpeed } from '../models/machine-speed.ts'

export type { MachineSpeed }

export interface SpeedEstimate {
  /** Speed of a single reply, with no others running. */
  readonly tokensPerSecond: number
  readonly promptTokensPerSecond: number
}

/** What a token of a model costs. */
export interface TokenCost {
  /** Bytes of weights that one token reads. */
  readonly bytes: number
  /** Parameters that one token uses. */
  readonly parameters: number
}

/** Slower replies are slower than people read, and a picture of a thousand tokens would take more than a minute. */
const USABLE: SpeedEstimate = { tokensPerSecond: 5, promptTokensPerSecond: 17 }

/**
 * Each token of a reply reads all weights that it uses; tokens of a prompt are multiplied with them, and many share one
 * read. So a mixture of experts is estimated as a dense model with the parameters that a token uses.
 */
export function estimateSpeed({ bytes, parameters }: TokenCost, speed: MachineSpeed): SpeedEstimate {
  return {
    tokensPerSecond: speed.bytesPerSecond / bytes,
    promptTokensPerSecond: speed.multiplyAddsPerSecond / parameters,
  }
}

/**
 * Whether it is fast enough for people to wait for answers without doing something else. An unknown speed counts as
 * usable.
 */
export function isUsable(speed: SpeedEstimate | null): boolean {
  return (
    speed === null ||
    (speed.tokensPerSecond >= USABLE.tokensPerSecond && speed.promptTokensPerSecond >= USABLE.promptTokensPerSecond)
  )
}
