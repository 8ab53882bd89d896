import { closeSync } from 'node:fs'
import { libc } from '../../lib/libc.ts'

/*
 * Open files travel between two processes over a Unix socket (`SCM_RIGHTS`), so that the receiver needs no right to open
 * files. Node sends only sockets this way. Linux only.
 */

const AF_UNIX = 1
/** `SOCK_SEQPACKET | SOCK_CLOEXEC`: messages are kept apart, and no other child gets the socket. */
const KIND = 0x80005
const SOL_SOCKET = 1
const SCM_RIGHTS = 1
/** `MSG_NOSIGNAL | MSG_DONTWAIT`: a receiver that has ended causes an error, and nothing blocks. */
const SEND_FLAGS = 0x4040
const MSG_CMSG_CLOEXEC = 0x40000000
/** Where the parts of a message are: `struct msghdr`, `struct iovec`, one byte of data, and control data. */
const PIECES = 56
const DATA = 72
const CONTROL = 80
/** `struct cmsghdr` (length, level, type) with one descriptor, padded. */
const CONTROL_BYTES = 24
const CONTROL_LENGTH = 20

/** Two connected sockets. */
export interface SocketPair {
  readonly ours: number
  readonly theirs: number
}

/** @throws Error when there are no descriptors left. */
export function makeSocketPair(): SocketPair {
  const { koffi, library } = libc()
  const pair = new Int32Array(2)
  const socketpair = library.func('socketpair', 'int', ['int', 'int', 'int', 'void *'])
  if (socketpair(AF_UNIX, KIND, 0, pair) !== 0) throw failure('socketpair', koffi.errno())
  return { ours: pair[0]!, theirs: pair[1]! }
}

/** Sends a copy of an open file's descriptor. @throws Error when the receiver has ended. */
export function sendDescriptor(socket: number, file: number): void {
  const message = makeMessage()
  message.writeBigUInt64LE(BigInt(CONTROL_LENGTH), CONTROL)
  message.writeInt32LE(SOL_SOCKET, CONTROL + 8)
  message.writeInt32LE(SCM_RIGHTS, CONTROL + 12)
  message.writeInt32LE(file, CONTROL + 16)
  transfer('sendmsg', socket, message, SEND_FLAGS)
}

/** Waits for a descriptor. The caller closes it. @throws Error when the sender has ended. */
export function receiveDescriptor(socket: number): number {
  const message = makeMessage()
  const count = transfer('recvmsg', socket, message, MSG_CMSG_CLOEXEC)
  if (count === 0 || message.readInt32LE(CONTROL + 12) !== SCM_RIGHTS) {
    throw new Error('The parent process sent no file')
  }
  return message.readInt32LE(CONTROL + 16)
}

export function closePair({ ours, theirs }: SocketPair): void {
  closeSync(ours)
  closeSync(theirs)
}

/** A message of one byte with room for control data, all in one block. */
function makeMessage(): Buffer {
  const message = Buffer.alloc(CONTROL + CONTROL_BYTES)
  const start = libc().koffi.address(message)
  message.writeBigUInt64LE(start + BigInt(PIECES), 16)
  message.writeBigUInt64LE(1n, 24)
  message.writeBigUInt64LE(start + BigInt(CONTROL), 32)
  message.writeBigUInt64LE(BigInt(CONTROL_BYTES), 40)
  message.writeBigUInt64LE(start + BigInt(DATA), PIECES)
  message.writeBigUInt64LE(1n, PIECES + 8)
  return message
}

/** @returns the number of bytes of data. */
function transfer(name: 'sendmsg' | 'recvmsg', socket: number, message: Buffer, flags: number): number {
  const { koffi, library } = libc()
  const count = library.func(name, 'long', ['int', 'void *', 'int'])(socket, message, flags) as number
  if (count < 0) throw failure(name, koffi.errno())
  return count
}

function failure(name: string, errno: number): Error {
  return new Error(`${name} failed (errno ${errno})`)
}
