import type { CameraFault } from '../../../../src/media/live/camera-source.ts'

const FAULTS: Readonly<Record<CameraFault, string>> = {
  unreachable: 'the camera cannot be reached',
  refused: 'the camera refuses the connection, or does not know the address',
  unauthorized: 'the camera does not take the user name and password',
  silent: 'the camera sends nothing',
  no_video: 'the camera sends no video',
  unsupported_codec: 'the camera’s codec is not supported',
  untrusted: 'the camera’s certificate cannot be verified: enter its fingerprint, or any',
  ended: 'the stream has ended',
  not_allowed: 'the server’s settings do not allow the camera',
}

/** Why a camera delivers nothing, in words; null for another reason. */
export function faultText(reason: string | null | undefined): string | null {
  return reason !== null && reason !== undefined && Object.hasOwn(FAULTS, reason) ? FAULTS[reason as CameraFault] : null
}
