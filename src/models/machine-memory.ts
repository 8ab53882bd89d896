import { totalmem } from 'node:os'

/** Bytes of memory that this machine has, or that the container or service is limited to. */
export function machineMemory(): number {
  const limit = process.constrainedMemory()
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem()
}

/** Bytes of it that are free for models. */
export function availableMemory(): number {
  // macOS counts memory as used that it gives away at once.
  return process.platform === 'darwin' ? Math.max(process.availableMemory(), totalmem() / 2) : process.availableMemory()
}
