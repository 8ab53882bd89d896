import type { FFmpeg } from '../../../decoding/ffmpeg.ts'
import { CameraError, type CameraSession, type SessionHooks } from '../camera-session.ts'
import type { Login } from './digest.ts'
import { HttpExchange, wholeBody } from './http-exchange.ts'
import { chooseVariant, type MediaPlaylist, readPlaylist, type Segment } from './playlist.ts'
import { readSegment } from './segment-reader.ts'
import { UnitPacer } from './unit-pacer.ts'

const MAX_PLAYLIST = 256 * 1024
const MAX_SEGMENT = 32 * 2 ** 20
const MAX_HEADER = 2 ** 20
/** The most segments in a row that yield no picture. */
const MOST_MISSES = 5
const SHORTEST_TARGET_MS = 500
const LONGEST_TARGET_MS = 60_000
/** Servers close idle connections. */
const LONGEST_POLL_MS = 4_000
/** Segments that may wait: this number of them, or this time of short ones. */
const MOST_BEHIND = 2
const BEHIND_MS = 3_000

/**
 * The video of an HLS stream (RFC 8216), one request after the other: the newest segment first, and then each that
 * follows, at playback speed. Segments that are too far behind are skipped.
 */
export class HlsSession implements CameraSession {
  readonly #hooks: SessionHooks
  readonly #ffmpeg: FFmpeg
  readonly #exchange: HttpExchange
  readonly #pacer: UnitPacer
  /** Where the playlist is requested: the target of a redirect may be valid only for a while. */
  #playlist: URL
  /** Where the last playlist came from. Its addresses are relative to this. */
  #base: URL
  #isVariant = false
  #targetMs = LONGEST_TARGET_MS / 10
  #pollAt = 0
  #hasEnded = false
  /** Number of the newest segment that is known. */
  #sequence: number | null = null
  #waiting: readonly Segment[] = []
  /** The beginning of fragmented MP4, and where it is. */
  #header: { readonly uri: string; readonly bytes: Buffer } | null = null
  #misses = 0
  /** Whether the next segment does not continue the last one. */
  #hasLost = false
  #isReading = false
  #isClosed = false

  constructor(url: URL, login: Login, hooks: SessionHooks, ffmpeg: FFmpeg) {
    this.#playlist = this.#base = url
    this.#hooks = hooks
    this.#ffmpeg = ffmpeg
    this.#exchange = new HttpExchange(url, login, (bytes) => hooks.send(bytes))
    this.#pacer = new UnitPacer((unit) => hooks.onUnit(unit))
    this.#poll()
  }

  get isIdle(): boolean {
    return this.#exchange.isIdle
  }

  /** Until the next segment is there. */
  get patienceMs(): number {
    return 2 * this.#targetMs
  }

  feed(bytes: Uint8Array): void {
    this.#exchange.feed(bytes)
  }

  tick(): void {
    if (this.#isReading || !this.isIdle) return
    const [next] = this.#waiting
    if (next !== undefined) {
      if (this.#pacer.leftMs <= this.#targetMs / 2) this.#load(next)
    } else if (this.#hasEnded) {
      if (this.#pacer.leftMs === 0) throw ended()
    } else if (performance.now() >= this.#pollAt) this.#poll()
  }

  end(): void {
    this.#exchange.end()
  }

  reopen(): void {
    this.#exchange.reopen()
  }

  close(): void {}

  [Symbol.dispose](): void {
    this.#isClosed = true
    this.#pacer[Symbol.dispose]()
  }

  #poll(): void {
    const onMoved = (url: URL) => {
      this.#base = url
    }
    const onBody = (body: Buffer | null) => {
      if (body === null) throw new CameraError('refused', 'The camera has no playlist there')
      const read = readPlaylist(body.toString())
      if ('segments' in read) {
        this.#take(read)
        this.tick()
        return
      }
      if (this.#isVariant) throw new CameraError('protocol', 'A variant of the camera is a list of variants')
      this.#isVariant = true
      this.#playlist = this.#resolve(chooseVariant(read).uri)
      this.#poll()
    }
    this.#base = this.#playlist
    this.#get(this.#playlist.href, MAX_PLAYLIST, 'A playlist', onBody, onMoved)
  }

  #take({ segments, targetMs, hasEnded }: MediaPlaylist): void {
    this.#targetMs = Math.min(Math.max(targetMs, SHORTEST_TARGET_MS), LONGEST_TARGET_MS)
    this.#pollAt = performance.now() + Math.min(this.#targetMs / 2, LONGEST_POLL_MS)
    this.#hasEnded = hasEnded
    // A complete video is not a camera.
    if (this.#sequence === null && hasEnded) throw ended()
    this.#hooks.onPlaying?.()
    const newest = segments.at(-1)
    if (newest === undefined) return
    // A server that has restarted counts from the beginning.
    const isKnown = this.#sequence !== null && newest.sequence >= this.#sequence
    const next = isKnown ? this.#sequence! + 1 : newest.sequence
    const fresh = segments.filter(({ sequence }) => sequence >= next)
    this.#waiting = fresh.slice(-Math.max(MOST_BEHIND, Math.ceil(BEHIND_MS / this.#targetMs)))
    this.#sequence = newest.sequence
    this.#hasLost ||= !isKnown || (this.#waiting[0] ?? newest).sequence > next
    if (!isKnown) this.#header = null
  }

  #load(segment: Segment): void {
    const { header } = segment
    if (header !== null && this.#header?.uri !== header) {
      this.#get(header, MAX_HEADER, 'A header', (bytes) => {
        if (bytes === null) throw new CameraError('refused', 'The camera has no header for its segments')
        this.#header = { uri: header, bytes }
        this.tick()
      })
      return
    }
    this.#waiting = this.#waiting.slice(1)
    this.#get(segment.uri, MAX_SEGMENT, 'A segment', (bytes) => {
      if (bytes === null) this.#miss()
      else this.#read(bytes, segment).catch((error) => this.#hooks.onError?.(error))
    })
  }

  async #read(bytes: Buffer, { header, time, isDiscontinuous }: Segment): Promise<void> {
    this.#isReading = true
    const before = header === null ? null : this.#header!.bytes
    const units = await readSegment(this.#ffmpeg, { header: before, segment: bytes, time })
    this.#isReading = false
    if (this.#isClosed) return
    const [first, ...rest] = units
    if (first === undefined) return this.#miss()
    this.#pacer.add([{ ...first, afterLoss: first.afterLoss || this.#hasLost }, ...rest], !isDiscontinuous)
    this.#misses = 0
    this.#hasLost = false
  }

  #miss(): void {
    this.#hasLost = true
    if (++this.#misses > MOST_MISSES) throw new CameraError('no_video', 'No segment of the camera can be shown')
  }

  /** @param onBody gets null if there is nothing. The body belongs to the receiver. */
  #get(
    uri: string,
    limit: number,
    what: string,
    onBody: (body: Buffer | null) => void,
    onMoved?: (url: URL) => void,
  ): void {
    const { pathname, search } = this.#resolve(uri)
    const onHead = (status: number) => wholeBody(limit, what, (body) => onBody(status === 200 ? body : null))
    this.#exchange.ask({ target: pathname + search, onHead, onMoved })
  }

  /** No other server is asked: only this connection was allowed. */
  #resolve(uri: string): URL {
    const url = URL.parse(uri, this.#base.href)
    if (url?.origin !== this.#base.origin) {
      throw new CameraError('not_allowed', 'The camera’s segments are elsewhere')
    }
    return url
  }
}

function ended(): CameraError {
  return new CameraError('ended', 'The stream has ended')
}
