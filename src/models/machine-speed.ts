/** How fast this machine computes with weights, as measured once. */
export interface MachineSpeed {
  /** Bytes of quantised weights that single-token steps read per second. */
  readonly bytesPerSecond: number
  /** Multiply-adds per second in a prompt of many tokens. */
  readonly multiplyAddsPerSecond: number
  /** Whether other programs computed meanwhile: alone, the machine is faster. */
  readonly isBusy?: true
}
