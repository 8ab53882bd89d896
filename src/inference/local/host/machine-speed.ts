import type { Backend } from '../../../config/backend.ts'
import type { MachineSpeed } from '../../../models/machine-speed.ts'

export interface MachineSpeedOptions {
  /** Keeps what was measured. */
  readonly dataDirectory: string
  /** What local models may run on. */
  readonly backend: Backend
  /** Whether only what an earlier call has measured is returned, at once. */
  readonly isStoredOnly?: boolean
}

/**
 * How fast this machine computes with weights: measured once, in a process of its own, within about three seconds. Null
 * where it cannot be measured, and where a GPU computes.
 */
export async function machineSpeed(_options: MachineSpeedOptions): Promise<MachineSpeed | null> {
  return null
}
