import type { CameraSession, SessionHooks } from './camera-session.ts'
import type { Login } from './digest.ts'
import { RtspSession } from './rtsp.ts'

/** Speaks first: the connection to the camera must be open. User and password of the address are not sent. */
export function openSession(source: CameraAddress, login: Login, hooks: SessionHooks): CameraSession {
  return new RtspSession(source.url, login, hooks)
}

export interface CameraAddress {
  readonly type: 'rtsp' | 'mjpeg' | 'jpeg'
  readonly url: URL
}
