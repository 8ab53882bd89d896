/** How fast this machine computes with weights, as measured once. */
export interface MachineSpeed {
  /** Bytes of quantised weights that steps of one token read each second. */
  readonly bytesPerSecond: number
  /** Multiplications with additions each second in a prompt of many tokens. */
  readonly multiplyAddsPerSecond: number
  /** Whether other programs computed meanwhile: alone, the machine is faster. */
  readonly isBusy?: true
}
