import { totalmem } from 'node:os'

/** Bytes of memory of this machine, or the limit of the container or service. */
export function machineMemory(): number {
  const limit = process.constrainedMemory()
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem()
}

/** Bytes that models may use: the free memory, or the limit if that is less. @param limit null for none. */
export function memoryForModels(limit: number | null): number {
  return Math.min(availableMemory(), limit ?? Number.POSITIVE_INFINITY)
}

/** Bytes of free memory. */
export function availableMemory(): number {
  // macOS counts memory as used that it frees on demand.
  return process.platform === 'darwin' ? Math.max(process.availableMemory(), totalmem() / 2) : process.availableMemory()
}
