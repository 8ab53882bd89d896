import type { MachineSpeed } from '../models/machine-speed.ts'

export type { MachineSpeed }

export interface SpeedEstimate {
  /** Speed of one reply, without others beside it. */
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

/** Slower replies are slower than people read, and a picture of a thousand tokens would take longer than a minute. */
const USABLE: SpeedEstimate = { tokensPerSecond: 5, promptTokensPerSecond: 17 }

/**
 * Each token of a reply reads all weights that it uses; each token of a prompt multiplies with them, while many share
 * one reading. A mixture of experts is therefore estimated as a dense model of the parameters that a token uses.
 */
export function estimateSpeed({ bytes, parameters }: TokenCost, speed: MachineSpeed): SpeedEstimate {
  return {
    tokensPerSecond: speed.bytesPerSecond / bytes,
    promptTokensPerSecond: speed.multiplyAddsPerSecond / parameters,
  }
}

/** Whether people wait for the answers without doing something else. What is not known counts as usable. */
export function isUsable(speed: SpeedEstimate | null): boolean {
  return (
    speed === null ||
    (speed.tokensPerSecond >= USABLE.tokensPerSecond && speed.promptTokensPerSecond >= USABLE.promptTokensPerSecond)
  )
}
