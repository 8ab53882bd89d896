import { lookup as resolveHost } from 'node:dns'
import { connect, type Socket } from 'node:net'
import { ForbiddenAddress, guardedLookup, type HostResolver } from '../../lib/public-address.ts'
import type { CameraHosts } from './camera-hosts.ts'
import { type CameraFault, type CameraLoss, type CameraSource, placeOf } from './camera-source.ts'

export interface Dialling {
  /** Hosts that it may connect to; null for any. */
  readonly hosts: CameraHosts | null
  readonly resolve: HostResolver | undefined
  readonly signal: AbortSignal
}

/** A connection that was not made. */
export class DialError extends Error {
  readonly fault: CameraFault

  constructor({ fault, message }: CameraLoss) {
    super(message)
    this.fault = fault
  }
}

const NOT_ALLOWED: CameraLoss = {
  fault: 'not_allowed',
  message: 'The setting LOOKOUT_CAMERA_HOSTS does not name the address of the camera',
}

export const CONNECT_MS = 10_000

/**
 * Connects to a camera, at the address that was checked. Nothing is read from the socket.
 * @throws DialError
 */
export async function dial(source: CameraSource, { hosts, resolve, signal }: Dialling): Promise<Socket> {
  const { host, port } = placeOf(source)
  const allowed = hosts?.allows(host, port) ?? true
  if (hosts === null || allowed === true) return connected(host, port, resolve && lookupOf(() => true, resolve), signal)
  if (allowed === false) throw new DialError(NOT_ALLOWED)
  return connected(
    host,
    port,
    lookupOf((address) => hosts.allowsAddress(address), resolve),
    signal,
  )
}

function lookupOf(isAllowed: (address: string) => boolean, resolve: HostResolver = resolveHost) {
  return guardedLookup(isAllowed, resolve)
}

/**
 * Whether a name resolves to addresses that are not all allowed. A name that cannot be resolved now may be resolvable
 * later, so it is not forbidden.
 */
export function isForbidden(
  host: string,
  { hosts, resolve = resolveHost }: Pick<Dialling, 'resolve'> & { readonly hosts: CameraHosts },
): Promise<boolean> {
  return new Promise((done) => {
    resolve(host, { all: true }, (error, addresses) => {
      done(error === null && addresses.some(({ address }) => !hosts.allowsAddress(address)))
    })
  })
}

async function connected(
  host: string,
  port: number,
  lookup: ReturnType<typeof guardedLookup> | undefined,
  signal: AbortSignal,
): Promise<Socket> {
  signal.throwIfAborted()
  const socket = connect({ host, port, ...(lookup && { lookup }), noDelay: true })
  // Otherwise this process would read what a camera sends before it is asked.
  socket.pause()
  const stop = () => socket.destroy(new Error('The camera does not answer'))
  const timer = setTimeout(stop, CONNECT_MS)
  signal.addEventListener('abort', stop, { once: true })
  try {
    await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject))
    return socket
  } catch (error) {
    signal.throwIfAborted()
    throw new DialError(lossOf(error as NodeJS.ErrnoException))
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', stop)
  }
}

function lossOf(error: NodeJS.ErrnoException): CameraLoss {
  if (error instanceof ForbiddenAddress) return NOT_ALLOWED
  if (error.code === 'ECONNREFUSED') return { fault: 'refused', message: 'Nothing listens at the port of the camera' }
  const isUnknown = error.code === 'ENOTFOUND' || error.code === 'EAI_AGAIN'
  const message = isUnknown
    ? 'The name of the camera’s host is not known'
    : 'The camera’s host does not accept the connection'
  return { fault: 'unreachable', message }
}
