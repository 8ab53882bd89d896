import { type AccessUnit, CameraError } from '../camera-session.ts'

const MAX_TRACKS = 32
/** RFC 3551: JPEG's payload type needs no description. */
const JPEG_TYPE = 26

export interface VideoTrack {
  readonly codec: AccessUnit['codec']
  readonly payloadType: number
  /** Rate of the RTP timestamps, in hertz. */
  readonly clockRate: number
  /** Its address, absolute or relative; null: that of the session. */
  readonly control: string | null
  /** NAL units, without start codes. */
  readonly parameterSets: readonly Uint8Array[]
}

/**
 * Chooses the first video that can be decoded from a session description (RFC 8866).
 * @throws CameraError
 */
export function videoTrackOf(sdp: string): VideoTrack {
  const sections = sdp.split(/\r?\n(?=m=)/).slice(1)
  if (sections.length > MAX_TRACKS) throw new CameraError('protocol', `The camera has more than ${MAX_TRACKS} tracks`)
  const videos = sections.filter((section) => section.startsWith('m=video'))
  const unsupported: string[] = []
  for (const section of videos) {
    const lines = section.split(/\r?\n/)
    const attribute = (name: string, of = '') =>
      lines
        .find((line) => line.startsWith(`a=${name}:${of}`))
        ?.slice(name.length + 3 + of.length)
        .trim() ?? null
    // m=video PORT PROTOCOL TYPE...
    for (const type of lines[0]!.split(/\s+/).slice(3, 35)) {
      const [name = '', rate = ''] = (
        attribute('rtpmap', `${type} `) ?? (Number(type) === JPEG_TYPE ? 'JPEG/90000' : '')
      ).split('/')
      const codec = ({ H264: 'h264', H265: 'h265', JPEG: 'jpeg' } as const)[name.toUpperCase()]
      const format = parametersOf(attribute('fmtp', `${type} `) ?? '')
      if (codec === undefined || !/^[1-9]\d{2,8}$/.test(rate) || isInterleaved(format)) {
        unsupported.push(name.replaceAll(/[^\w.-]/g, '').slice(0, 32) || type)
        continue
      }
      const sets = ['sprop-vps', 'sprop-sps', 'sprop-pps', 'sprop-parameter-sets'].map((key) => format.get(key) ?? '')
      return {
        codec,
        payloadType: Number(type),
        clockRate: Number(rate),
        control: attribute('control')?.split(/\s/)[0] ?? null,
        parameterSets: sets
          .join(',')
          .split(',')
          .filter(Boolean)
          .map((set) => Buffer.from(set, 'base64')),
      }
    }
  }
  if (videos.length === 0) throw new CameraError('no_video', 'The camera has no video')
  throw new CameraError(
    'unsupported_codec',
    `The camera sends ${unsupported.join(', ').slice(0, 100)}; Lookout takes H.264, H.265 and JPEG`,
  )
}

/** Units out of order, which cameras do not send. */
function isInterleaved(format: ReadonlyMap<string, string>): boolean {
  return format.get('packetization-mode') === '2' || Number(format.get('sprop-max-don-diff') ?? 0) > 0
}

/** Parameters of a line such as `packetization-mode=1;profile-level-id=42e01f`. */
function parametersOf(format: string): Map<string, string> {
  return new Map(
    format.split(';').map((pair) => {
      const [key = '', ...value] = pair.split('=')
      return [key.trim().toLowerCase(), value.join('=').trim()]
    }),
  )
}
