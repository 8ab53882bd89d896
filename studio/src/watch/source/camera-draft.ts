import { signal } from '@preact/signals'
import type { CameraType } from '../../../../src/media/live/camera-source.ts'
import { callJson } from '../../server/call.ts'

/** Where the frames of a new watch come from. The password stays in the page. */
export interface SourceDraft {
  readonly type: 'push' | 'camera' | CameraType
  /** The name of a camera of the server's configuration. */
  readonly camera: string
  readonly url: string
  readonly username: string
  readonly password: string
  /** Which certificates are trusted; empty for valid ones. */
  readonly certificate: string
  /** Whether a video of each event is kept. Pushed frames make none. */
  readonly records: boolean
}

export const PUSHED: SourceDraft = {
  type: 'push',
  ...{ camera: '', url: '', username: '', password: '', certificate: '' },
  records: false,
}
export const source = signal<SourceDraft>(PUSHED)
/** Names of the cameras that the server's configuration has. */
export const configuredCameras = signal<readonly string[]>([])

export async function listCameras(): Promise<void> {
  // Without the list, the other choices stay.
  const page = await callJson<{ data: readonly { name: string }[] }>('/v1/cameras').catch(() => null)
  if (page !== null) configuredCameras.value = page.data.map(({ name }) => name)
}

export function changeSource(changes: Partial<SourceDraft>): void {
  source.value = { ...source.value, ...changes }
}

const CLIP_SECONDS = 5

/** Returns the `record` of the request that makes the watch; undefined for the server's default. */
export function recordBody({ type, records }: SourceDraft): object | undefined {
  if (type === 'push' || !records) return undefined
  return { before_seconds: CLIP_SECONDS, after_seconds: CLIP_SECONDS }
}

/** Whether a camera speaks TLS. */
export function isSecure({ url }: SourceDraft): boolean {
  return /^\s*(?:rtsps|https):/i.test(url)
}

/** Returns the `source` of the request that makes the watch. */
export function sourceBody(draft: SourceDraft): object {
  const { type, camera, url, username, password } = draft
  const certificate = isSecure(draft) && draft.certificate.trim()
  if (type === 'push') return { type }
  if (type === 'camera') return { type, camera }
  const login = { ...(username && { username }), ...(password && { password }) }
  return { type, url: url.trim(), ...login, ...(certificate && { certificate }) }
}
