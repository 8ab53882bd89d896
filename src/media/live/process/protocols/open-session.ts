import type { FFmpeg } from '../../../decoding/ffmpeg.ts'
import type { CameraType } from '../../camera-source.ts'
import type { CameraSession, SessionHooks } from '../camera-session.ts'
import type { Login } from './digest.ts'
import { HlsSession } from './hls.ts'
import { HttpSession } from './http.ts'
import { RtspSession } from './rtsp.ts'

export interface CameraAddress {
  readonly type: CameraType
  readonly url: URL
}

/**
 * Sends the first request: the connection to the camera must be open. A name and a password in the address are not
 * sent.
 * @param ffmpeg demuxes segments of HLS
 */
export function openSession(
  { type, url }: CameraAddress,
  login: Login,
  hooks: SessionHooks,
  ffmpeg: FFmpeg,
): CameraSession {
  if (type === 'rtsp') return new RtspSession(url, login, hooks)
  return type === 'hls' ? new HlsSession(url, login, hooks, ffmpeg) : new HttpSession(type, url, login, hooks)
}
