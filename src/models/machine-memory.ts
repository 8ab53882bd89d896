import { totalmem } from 'node:os'

/** Bytes of memory that this machine has, or that the container or service is limited to. */
export function machineMemory(): number {
  const limit = process.constrainedMemory()
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem()
}
