import type { MachineSpeed } from '../models/machine-speed.ts'

export type { MachineSpeed }

export interface SpeedEstimate {
  /** Of one reply, without others beside it. */
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

export function estimateSpeed({ bytes, parameters }: TokenCost, speed: MachineSpeed): SpeedEstimate {
  return {
    tokensPerSecond: speed.bytesPerSecond / bytes,
    promptTokensPerSecond: speed.multiplyAddsPerSecond / parameters,
  }
}
