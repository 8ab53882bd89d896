import { isIP, type Socket } from 'node:net'
import { connect, type TLSSocket } from 'node:tls'
import { type CameraSource, placeOf } from '../camera-source.ts'

/**
 * Speaks TLS over a connected socket.
 * @param onReady says whether the camera's certificate is trusted. Until then, nothing but the handshake is sent.
 */
export function secureWire(socket: Socket, source: CameraSource, onReady: (isTrusted: boolean) => void): TLSSocket {
  const { host } = placeOf(source)
  // Names that are addresses may not be sent. The certificate is checked below.
  const wire = connect({ socket, host, servername: isIP(host) === 0 ? host : '', rejectUnauthorized: false })
  wire.once('secureConnect', () => onReady(isTrusted(wire, source.certificate)))
  return wire
}

function isTrusted(wire: TLSSocket, certificate: string): boolean {
  if (certificate === 'any') return true
  if (certificate === 'verify') return wire.authorized
  const digits = (text: string) => text.replaceAll(':', '').toLowerCase()
  return digits(certificate) === `sha256${digits(wire.getPeerCertificate().fingerprint256)}`
}
