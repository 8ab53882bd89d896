import { endianness } from 'node:os'
import {
  ALLOWED,
  ALLOWED_OF_SOCKETS,
  type CallNumbers,
  CLONE,
  CLONE3,
  IO_URING_SETUP,
  IOCTL,
  KILL,
  PRCTL,
  PRLIMIT,
  type Processor,
  SETSOCKOPT,
  TGKILL,
} from './system-calls.ts'

/** `AUDIT_ARCH_X86_64` and `AUDIT_ARCH_AARCH64`: a process may switch to another set of numbers. */
const ARCHITECTURE: Readonly<Record<Processor, number>> = { x64: 0xc000003e, arm64: 0xc00000b7 }

/** Offsets in `struct seccomp_data`. */
const NUMBER = 0
const ARCHITECTURE_OFFSET = 4
const argument = (index: number) => 16 + 8 * index

/** Operations of classic BPF, from `linux/bpf_common.h`. */
const LOAD = 0x20
const IF_EQUAL = 0x15
const IF_BITS = 0x45
const RETURN = 0x06

/** Return values of a filter, from `linux/seccomp.h`. */
const ALLOW = 0x7fff0000
const KILL_PROCESS = 0x80000000
const failWith = (errno: number) => 0x00050000 | errno
const EPERM = 1
const ENOSYS = 38

const CLONE_THREAD = 0x10000
const FIONBIO = 0x5421
const SOL_SOCKET = 1
const SOL_TCP = 6
const PR_SET_NAME = 15
const PR_GET_NAME = 16
/** Names mappings, for people who debug. */
const PR_SET_VMA = 0x53564d41

type Instruction = readonly [operation: number, ifTrue: number, ifFalse: number, value: number]

/**
 * A program of classic BPF that allows the system calls that a decoder needs to compute, and fails all others with
 * EPERM.
 * @param pid the process: it may send signals only to itself.
 * @param takesSockets whether its parent gives it connected sockets.
 * @returns instructions of eight bytes, as `struct sock_filter` has them.
 */
export function decoderFilter(processor: Processor, pid: number, takesSockets: boolean): Buffer {
  const number = (call: CallNumbers) => call[processor]
  const calls = takesSockets ? [...ALLOWED, ...ALLOWED_OF_SOCKETS] : ALLOWED
  const allowed = calls.map(number).filter((call) => call !== null)
  return assemble([
    [LOAD, 0, 0, ARCHITECTURE_OFFSET],
    [IF_EQUAL, 1, 0, ARCHITECTURE[processor]],
    [RETURN, 0, 0, KILL_PROCESS],
    [LOAD, 0, 0, NUMBER],
    ...allowed.flatMap((call): Instruction[] => [
      [IF_EQUAL, 0, 1, call],
      [RETURN, 0, 0, ALLOW],
    ]),
    ...allowIf(number(KILL)!, 0, IF_EQUAL, pid),
    ...allowIf(number(TGKILL)!, 0, IF_EQUAL, pid),
    // Only its own limits. The limit on memory is a hard one, which a process without privileges cannot raise.
    ...allowIf(number(PRLIMIT)!, 0, IF_EQUAL, 0),
    ...allowIf(number(PRCTL)!, 0, IF_EQUAL, PR_SET_NAME, PR_GET_NAME, PR_SET_VMA),
    ...allowIf(number(IOCTL)!, 1, IF_EQUAL, FIONBIO),
    ...(takesSockets ? allowIf(number(SETSOCKOPT)!, 1, IF_EQUAL, SOL_SOCKET, SOL_TCP) : []),
    // A thread, not a process.
    ...allowIf(number(CLONE)!, 0, IF_BITS, CLONE_THREAD),
    // Its flags are in memory, where a filter cannot see them. The C library falls back to `clone`.
    [IF_EQUAL, 0, 1, number(CLONE3)!],
    [RETURN, 0, 0, failWith(ENOSYS)],
    [RETURN, 0, 0, failWith(EPERM)],
  ])
}

/** A program that allows everything but creating rings, as if the kernel did not support them. */
export function ringlessFilter(processor: Processor): Buffer {
  return assemble([
    [LOAD, 0, 0, ARCHITECTURE_OFFSET],
    [IF_EQUAL, 1, 0, ARCHITECTURE[processor]],
    [RETURN, 0, 0, ALLOW],
    [LOAD, 0, 0, NUMBER],
    [IF_EQUAL, 0, 1, IO_URING_SETUP[processor]!],
    [RETURN, 0, 0, failWith(ENOSYS)],
    [RETURN, 0, 0, ALLOW],
  ])
}

/** Allows a call if the lower half of one argument is, or has the bits of, one of the values. */
function allowIf(call: number, index: number, condition: number, ...values: number[]): Instruction[] {
  return [
    [IF_EQUAL, 0, 2 * values.length + 2, call],
    [LOAD, 0, 0, argument(index)],
    ...values.flatMap((value): Instruction[] => [
      [condition, 0, 1, value],
      [RETURN, 0, 0, ALLOW],
    ]),
    [RETURN, 0, 0, failWith(EPERM)],
  ]
}

function assemble(program: readonly Instruction[]): Buffer {
  // Both processors run Linux with the low byte first. So is the lower half of an argument.
  if (endianness() !== 'LE') throw new Error('Expected a little-endian processor')
  const bytes = Buffer.alloc(8 * program.length)
  for (const [index, [operation, ifTrue, ifFalse, value]] of program.entries()) {
    bytes.writeUInt16LE(operation, 8 * index)
    bytes.writeUInt8(ifTrue, 8 * index + 2)
    bytes.writeUInt8(ifFalse, 8 * index + 3)
    bytes.writeUInt32LE(value >>> 0, 8 * index + 4)
  }
  return bytes
}
