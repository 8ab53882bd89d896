import { CameraError, dateOf } from '../camera-session.ts'

const LONGEST_URI = 4096
const LONGEST_SECONDS = 3600
const USUAL_TARGET_MS = 6_000
/** Enough lines for a picture: a model seldom sees more, and decoding costs grow with them. */
const ENOUGH_LINES = 720

export interface Segment {
  readonly uri: string
  /** Counts up by one. */
  readonly sequence: number
  readonly durationMs: number
  /** Address of the header of fragmented MP4, which precedes it in a file. */
  readonly header: string | null
  /** Its timestamps do not continue those of the segment before. */
  readonly isDiscontinuous: boolean
  /** When it begins, by the camera's clock, in Unix milliseconds; null if the playlist does not say so. */
  readonly time: number | null
}

export interface MediaPlaylist {
  readonly targetMs: number
  readonly segments: readonly Segment[]
  readonly hasEnded: boolean
}

/** One of several playlists of the same stream. */
export interface Variant {
  readonly uri: string
  readonly bandwidth: number
  /** Height of its pictures; 0 if the playlist does not say so. */
  readonly lines: number
  readonly codecs: string | null
}

/**
 * Reads a playlist of HLS (RFC 8216).
 * @returns the variants of a master playlist, or a media playlist.
 * @throws CameraError
 */
export function readPlaylist(text: string): readonly Variant[] | MediaPlaylist {
  if (!text.startsWith('#EXTM3U')) throw new CameraError('no_video', 'The camera does not answer with a playlist')
  const lines = text.split('\n').map((line) => line.trim())
  return /^#EXT-X-STREAM-INF:/m.test(text) ? readVariants(lines) : readSegments(lines)
}

/**
 * Chooses the smallest variant whose pictures have at least 720 lines, else the largest one.
 * @throws CameraError where none can be decoded.
 */
export function chooseVariant(variants: readonly Variant[]): Variant {
  const possible = variants.filter(({ codecs }) => codecs === null || /\b(?:avc|hvc|hev)\d/.test(codecs))
  const enough = possible
    .filter(({ lines }) => lines >= ENOUGH_LINES)
    .sort((one, other) => one.lines - other.lines || one.bandwidth - other.bandwidth)
  const chosen = enough[0] ?? possible.sort((one, other) => other.lines - one.lines)[0]
  if (chosen === undefined) throw new CameraError('unsupported_codec', 'The camera has no variant in H.264 or H.265')
  return chosen
}

function readVariants(lines: readonly string[]): Variant[] {
  return lines.flatMap((line, i) => {
    const attributes = /^#EXT-X-STREAM-INF:(.*)$/.exec(line)?.[1]
    const uri = lines.slice(i + 1, i + 4).find(isUri)
    if (attributes === undefined || uri === undefined) return []
    const told = attributesOf(attributes)
    const height = /^\d{1,5}x(\d{1,5})$/.exec(told.get('RESOLUTION') ?? '')?.[1]
    const bandwidth = Number(told.get('BANDWIDTH') ?? 0) || 0
    return [{ uri: checked(uri), bandwidth, lines: Number(height ?? 0), codecs: told.get('CODECS') ?? null }]
  })
}

function readSegments(lines: readonly string[]): MediaPlaylist {
  const segments: Segment[] = []
  let [sequence, durationMs, targetMs] = [0, 0, USUAL_TARGET_MS]
  let header: string | null = null
  let time: number | null = null
  let isDiscontinuous = false
  for (const line of lines) {
    const [, tag, value = ''] = /^#(EXT[\w-]*):?(.*)$/.exec(line) ?? []
    if (tag === 'EXTINF') durationMs = millisecondsOf(value)
    else if (tag === 'EXT-X-TARGETDURATION') targetMs = millisecondsOf(value)
    else if (tag === 'EXT-X-MEDIA-SEQUENCE') sequence = /^\d{1,15}$/.test(value) ? Number(value) : 0
    else if (tag === 'EXT-X-DISCONTINUITY') isDiscontinuous = true
    else if (tag === 'EXT-X-BYTERANGE') throw unsupported('are parts of files')
    else if (tag === 'EXT-X-MAP') header = headerIn(attributesOf(value))
    else if (tag === 'EXT-X-PROGRAM-DATE-TIME') time = dateOf(value)?.getTime() ?? null
    else if (tag === 'EXT-X-KEY' && attributesOf(value).get('METHOD') !== 'NONE') throw unsupported('are encrypted')
    if (!isUri(line)) continue
    segments.push({ uri: checked(line), sequence, durationMs, header, isDiscontinuous, time })
    sequence++
    time &&= time + durationMs
    isDiscontinuous = false
  }
  return { targetMs, segments, hasEnded: lines.includes('#EXT-X-ENDLIST') }
}

function headerIn(attributes: ReadonlyMap<string, string>): string {
  if (attributes.has('BYTERANGE')) throw unsupported('are parts of files')
  return checked(attributes.get('URI') ?? '')
}

function isUri(line: string): boolean {
  return line !== '' && !line.startsWith('#')
}

function checked(uri: string): string {
  if (uri.length > LONGEST_URI) throw new CameraError('protocol', 'An address in a playlist is too long')
  return uri
}

function unsupported(what: string): CameraError {
  return new CameraError('unsupported_codec', `Segments of the camera ${what}`)
}

/** Attributes of a list such as `BANDWIDTH=1280000,CODECS="avc1.42e00a,mp4a.40.2"`. */
function attributesOf(text: string): Map<string, string> {
  const pairs = text.matchAll(/(?:^|,)\s*([A-Z\d-]{1,32})=(?:"([^"]*)"|([^,"]*))/g)
  return new Map([...pairs].map(([, name, quoted, bare]) => [name!, quoted ?? bare!]))
}

function millisecondsOf(text: string): number {
  const seconds = Number.parseFloat(text)
  return seconds >= 0 ? Math.min(seconds, LONGEST_SECONDS) * 1000 : 0
}
