import { lazy } from '../../lib/lazy.ts'
import { libc } from '../../lib/libc.ts'
import { decoderFilter, ringlessFilter } from './filter.ts'
import { type Processor, SECCOMP } from './system-calls.ts'

const PR_SET_NO_NEW_PRIVS = 38
const SET_MODE_FILTER = 1
/** For all threads of the process, and not only the one that asks. */
const ALL_THREADS = 1
/** Without the mitigation for speculative execution that old kernels otherwise add, which is slow. */
const NO_MITIGATION = 4
const EFAULT = 14

/** Why this system cannot confine decoders; null when it can. */
export function whyNoSeccomp(): string | null {
  if (process.platform !== 'linux') return 'it needs Linux'
  const processor = supportedProcessor()
  if (processor === null) return `it is not implemented for ${process.arch} processors`
  try {
    // A kernel that supports filters tries to read it, and fails because the pointer is null.
    const errno = installFilter(processor, null, ALL_THREADS)
    return errno === EFAULT ? null : `the kernel does not take a seccomp filter (errno ${errno})`
  } catch (error) {
    return `koffi cannot be loaded: ${String(error)}`
  }
}

/**
 * Confines this process, for all its threads and for good: from now on it can open no files, create no sockets and
 * start no programs. All code that it needs must be loaded before.
 * @param takesSockets whether its parent gives it connected sockets.
 * @throws Error when the kernel refuses.
 */
export function confine({ takesSockets = false } = {}): void {
  install((processor) => decoderFilter(processor, process.pid, takesSockets), ALL_THREADS)
}

/**
 * Forbids io_uring, for good, to this thread and to the processes that it starts from now on. With a ring, a process
 * can ask the kernel for what its filter forbids. libuv creates one when Node starts, which cannot be turned off, and
 * ends the process when its ring does not work. Container engines forbid rings in the same way.
 * @throws Error when the kernel refuses.
 */
export const forbidRings = lazy(() => install(ringlessFilter, 0))

function install(filter: (processor: Processor) => Buffer, threads: number): void {
  const processor = supportedProcessor()
  if (processor === null) throw new Error(`No filter for ${process.arch} processors`)
  const { library } = libc()
  const prctl = library.func('prctl', 'int', ['int', 'ulong', 'ulong', 'ulong', 'ulong'])
  // Without this, only root may install a filter.
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) !== 0) throw new Error('prctl(PR_SET_NO_NEW_PRIVS) failed')
  const errno = installFilter(processor, filter(processor), threads)
  if (errno !== 0) throw new Error(`The kernel refused the seccomp filter (errno ${errno})`)
}

function supportedProcessor(): Processor | null {
  return process.arch === 'x64' || process.arch === 'arm64' ? process.arch : null
}

/** @returns the error number, 0 for success. */
function installFilter(processor: Processor, filter: Buffer | null, threads: number): number {
  const { koffi, library } = libc()
  const syscall = library.func('syscall', 'long', ['long', 'ulong', 'ulong', 'void *'])
  let program: Buffer | null = null
  if (filter !== null) {
    // struct sock_fprog: the number of instructions, and where they are. Here they follow it.
    program = Buffer.concat([Buffer.alloc(16), filter])
    program.writeUInt16LE(filter.length / 8, 0)
    program.writeBigUInt64LE(koffi.address(program) + 16n, 8)
  }
  const result = syscall(SECCOMP[processor], SET_MODE_FILTER, threads | NO_MITIGATION, program) as number
  // A positive result is the id of a thread that could not be changed.
  if (result === 0) return 0
  return result > 0 ? -1 : koffi.errno()
}
