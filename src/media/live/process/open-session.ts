import type { CameraSession, SessionHooks } from './camera-session.ts'
import type { Login } from './digest.ts'
import { HttpSession } from './http.ts'
import { RtspSession } from './rtsp.ts'

export interface CameraAddress {
  readonly type: 'rtsp' | 'mjpeg' | 'jpeg'
  readonly url: URL
}

/**
 * Speaks first: the connection to the camera must be open. A name and a password in the address are not sent.
 * @param login to be kept for later connections to the same camera
 */
export function openSession({ type, url }: CameraAddress, login: Login, hooks: SessionHooks): CameraSession {
  return type === 'rtsp' ? new RtspSession(url, login, hooks) : new HttpSession(type, url, login, hooks)
}
