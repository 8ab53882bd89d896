import { isIP, type Socket } from 'node:net'
import { connect, type TLSSocket } from 'node:tls'
import { type CameraSource, placeOf } from '../camera-source.ts'
import { CameraError } from './camera-session.ts'

/** Limit for a camera that does not read its requests. */
const MOST_UNREAD_BYTES = 256 * 1024

export interface WireListener {
  /**
   * Nothing but the handshake is sent before this.
   * @param isTrusted whether the camera's certificate is, if it has one.
   */
  onReady(isTrusted: boolean): void
  onBytes(bytes: Uint8Array): void
  /** The camera has closed the connection in order. */
  onEnd(): void
  onClose(): void
}

/** Wraps a connected socket to a camera, in TLS if its address asks for that. */
export function openWire(socket: Socket, source: CameraSource, listener: WireListener): Socket {
  const { host, isSecure } = placeOf(source)
  // Names that are addresses may not be sent. The certificate is checked below.
  const server = { host, servername: isIP(host) === 0 ? host : '', rejectUnauthorized: false }
  const secure = isSecure ? connect({ socket, ...server }) : null
  secure?.once('secureConnect', () => listener.onReady(isTrusted(secure, source.certificate)))
  const wire = secure ?? socket
  wire.on('data', (bytes) => listener.onBytes(bytes))
  wire.once('end', () => listener.onEnd())
  for (const event of ['error', 'close']) wire.once(event, () => listener.onClose())
  if (secure === null) listener.onReady(true)
  return wire
}

/** @throws CameraError when the camera does not read. */
export function say(wire: Socket, bytes: Uint8Array): void {
  if (wire.writableLength > MOST_UNREAD_BYTES) throw new CameraError('protocol', 'The camera does not read')
  if (wire.writable) wire.write(bytes)
}

function isTrusted(wire: TLSSocket, certificate: string): boolean {
  if (certificate === 'any') return true
  if (certificate === 'verify') return wire.authorized
  const digits = (text: string) => text.replaceAll(':', '').toLowerCase()
  return digits(certificate) === `sha256${digits(wire.getPeerCertificate().fingerprint256)}`
}
