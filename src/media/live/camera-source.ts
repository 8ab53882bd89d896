/** The protocols of cameras. */
export const CAMERA_TYPES = ['rtsp', 'mjpeg', 'jpeg', 'hls'] as const
export type CameraType = (typeof CAMERA_TYPES)[number]

/** Why a camera delivers nothing. */
export const CAMERA_FAULTS = [
  'unreachable',
  'refused',
  'unauthorized',
  'silent',
  'no_video',
  'unsupported_codec',
  'not_allowed',
  'untrusted',
  'ended',
] as const
export type CameraFault = (typeof CAMERA_FAULTS)[number]

/** Why a camera delivers nothing, with details: a sentence without addresses and credentials. */
export interface CameraLoss {
  readonly fault: CameraFault
  readonly message: string
}

/** A camera, and the credentials to log in. */
export interface CameraSource {
  readonly type: CameraType
  /** Without user name and password. */
  readonly url: string
  readonly username: string | null
  readonly password: string | null
  /** Which certificates are trusted, as `certificateRule` says. */
  readonly certificate: string
}

/** The first picture may take this many times as long as silence: it comes with the next key frame. */
export const FIRST_PICTURE = 6

/**
 * Which frames are decoded: all, only key frames, or (`auto`) only key frames if they arrive as often as frames are
 * wanted.
 */
export const DECODES = ['auto', 'all', 'key_frames'] as const
export type Decode = (typeof DECODES)[number]

/** How often a follower wants a frame, and of which kind. */
export interface Pace {
  readonly everyMs: number
  readonly decode: Decode
  /** How long the camera's video is kept for clips; not at all by default. */
  readonly keepMs?: number
}

/** Without TLS, and with it. */
const HTTP = ['http:', 'https:'] as const
const PROTOCOLS: Readonly<Record<CameraType, readonly [string, string]>> = {
  rtsp: ['rtsp:', 'rtsps:'],
  mjpeg: HTTP,
  jpeg: HTTP,
  hls: HTTP,
}
const PORTS: Readonly<Record<string, number>> = { 'rtsp:': 554, 'rtsps:': 322, 'http:': 80, 'https:': 443 }

/** What is wrong with the address of a camera; null if it is valid. */
export function faultOfUrl(type: CameraType, text: string): string | null {
  const [plain, secure] = PROTOCOLS[type]
  const expected = `expected an address that begins with ${plain}// or ${secure}//`
  if (!URL.canParse(text)) {
    const isScheme = [plain, secure].some((scheme) => text.toLowerCase().startsWith(`${scheme}//`))
    return isScheme ? 'expected a valid host and, optionally, a port of at most 65535' : expected
  }
  const { protocol, hostname, username, password } = new URL(text)
  if ((protocol !== plain && protocol !== secure) || hostname === '') return expected
  if (username !== '' || password !== '') return 'expected no user name and password; send them as fields of their own'
  return null
}

/** Where a camera is. An IPv6 address has no brackets. */
export function placeOf({ url }: Pick<CameraSource, 'url'>): {
  readonly host: string
  readonly port: number
  /** Whether it speaks TLS. */
  readonly isSecure: boolean
} {
  const { protocol, hostname, port } = new URL(url)
  return {
    host: hostname.replace(/^\[|\]$/g, '').toLowerCase(),
    port: port === '' ? PORTS[protocol]! : Number(port),
    isSecure: protocol === 'rtsps:' || protocol === 'https:',
  }
}
