import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type CameraLogin, LoginCheck } from './camera-login.ts'
import type { CameraVideo } from './camera-video.ts'
import { check, native } from './video.ts'

const CODECS = { h264: 27, h265: 173 }
const WINDOW = 4
const FRAME_TICKS = 9_000
const OK = { 'content-type': 'application/octet-stream' }

export interface HlsBehaviour {
  login: CameraLogin | null
  /** Number of the newest segment, in place of the time. */
  newest: number | null
  /** Whether the stream ends with the newest segment. */
  hasEnded: boolean
  /** Segments that are not there. */
  misses: (sequence: number) => boolean
  /** In place of the answer to a request for this path. */
  answers: Record<string, string | Buffer | ((response: ServerResponse) => void)>
  /** Ends each connection with its answer. */
  closes: boolean
}

interface SegmentedVideo extends CameraVideo {
  /** Frames of a segment, which begins with a key frame. */
  readonly interval?: number
  /** Width of a pixel by its height, as the container alone says it. */
  readonly pixelAspect?: { readonly num: number; readonly den: number }
}

/** FFmpeg's segments of a video of 10 frames a second, over and over: `/live.m3u8`, and `/index.m3u8` with variants. */
export class HlsCamera {
  readonly behaviour: HlsBehaviour
  readonly requests: string[] = []
  readonly #server: Server
  readonly #files: ReadonlyMap<string, Buffer>
  readonly #segments: readonly string[]
  readonly #started = performance.now()
  readonly #segmentMs: number
  readonly #check = new LoginCheck()

  private constructor(server: Server, files: ReadonlyMap<string, Buffer>, segmentMs: number, behaviour: HlsBehaviour) {
    this.#server = server
    this.#files = files
    this.#segments = [...files.keys()].filter((name) => name.startsWith('part')).toSorted()
    this.#segmentMs = segmentMs
    this.behaviour = behaviour
    server.on('request', (request, response) => this.#answer(request, response))
  }

  static async start(
    video: SegmentedVideo,
    format: 'mpegts' | 'fmp4' = 'mpegts',
    behaviour: Partial<HlsBehaviour> = {},
  ): Promise<HlsCamera> {
    const { interval = 5 } = video
    const server = createServer()
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const usual = { login: null, newest: null, hasEnded: false, misses: () => false, answers: {}, closes: false }
    return new HlsCamera(server, segment(video, interval, format), interval * 100, { ...usual, ...behaviour })
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as { port: number }).port}/index.m3u8`
  }

  /** The number of the newest segment. */
  get newest(): number {
    return this.behaviour.newest ?? WINDOW + Math.floor((performance.now() - this.#started) / this.#segmentMs)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve))
    this.#server.closeAllConnections()
    await closed
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const path = new URL(request.url!, this.url).pathname
    this.requests.push(path)
    response.shouldKeepAlive = !this.behaviour.closes
    const challenge = this.#check.challenge(this.behaviour.login, 'GET', request.headers.authorization)
    if (challenge !== null) {
      response.writeHead(401, { 'www-authenticate': challenge }).end()
      return
    }
    const [, sequence, name] = /^\/(\d+)\/(.+)$/.exec(path) ?? []
    const own = this.behaviour.answers[path]
    if (typeof own === 'function') {
      own(response)
      return
    }
    const answer = own ?? (path === '/index.m3u8' ? VARIANTS : path === '/live.m3u8' ? this.playlist() : undefined)
    if (answer !== undefined) response.writeHead(200).end(answer)
    else if (sequence !== undefined && this.behaviour.misses(Number(sequence))) response.writeHead(404).end('gone')
    else {
      const file = this.#files.get(name ?? path.slice(1))
      response.writeHead(file === undefined ? 404 : 200, OK).end(file)
    }
  }

  /** What `/live.m3u8` is now. */
  playlist(): string {
    const { newest } = this
    const first = Math.max(0, newest - WINDOW + 1)
    const seconds = this.#segmentMs / 1000
    const lines = ['#EXTM3U', '#EXT-X-VERSION:7', `#EXT-X-TARGETDURATION:${Math.ceil(seconds)}`]
    lines.push(`#EXT-X-MEDIA-SEQUENCE:${first}`)
    if (this.#files.has('init.mp4')) lines.push('#EXT-X-MAP:URI="init.mp4"')
    for (let sequence = first; sequence <= newest; sequence++) {
      const at = sequence % this.#segments.length
      if (at === 0) lines.push('#EXT-X-DISCONTINUITY')
      lines.push(`#EXTINF:${seconds},`, `${sequence}/${this.#segments[at]}`)
    }
    return [...lines, ...(this.behaviour.hasEnded ? ['#EXT-X-ENDLIST'] : []), ''].join('\n')
  }
}

const VARIANTS = [
  '#EXTM3U',
  '#EXT-X-STREAM-INF:BANDWIDTH=9000000,RESOLUTION=3840x2160,CODECS="hvc1.2.4.L153"',
  'large.m3u8',
  '#EXT-X-STREAM-INF:BANDWIDTH=64000,CODECS="mp4a.40.2"',
  'sound.m3u8',
  '#EXT-X-STREAM-INF:BANDWIDTH=2000000,RESOLUTION=1280x720,CODECS="avc1.64001f,mp4a.40.2"',
  '/live.m3u8',
  '',
].join('\r\n')

/** Has FFmpeg write the segments of a video. */
function segment(video: SegmentedVideo, interval: number, format: 'mpegts' | 'fmp4'): Map<string, Buffer> {
  const { codec, units, pixelAspect } = video
  const folder = mkdtempSync(join(tmpdir(), 'lookout-hls-'))
  const output = new native.FormatContext()
  const packet = new native.Packet()
  packet.alloc()
  try {
    check(output.allocOutputContext2(null, 'hls', join(folder, 'index.m3u8')))
    const ending = format === 'fmp4' ? 'm4s' : 'ts'
    const options = {
      ...{ hls_time: String(interval / 10), hls_list_size: '0', hls_segment_type: format },
      hls_segment_filename: join(folder, `part%03d.${ending}`),
    }
    for (const [name, value] of Object.entries(options)) check(native.Option.set(output, name, value, 1))
    const stream = output.newStream(null)
    Object.assign(stream.codecpar, {
      width: 320,
      height: 180,
      codecType: 0,
      codecId: CODECS[codec],
      extradata: units[0],
      ...(pixelAspect && { sampleAspectRatio: pixelAspect }),
    })
    if (codec === 'h265') stream.codecpar.codecTag = Buffer.from('hvc1').readUInt32LE()
    stream.timeBase = { num: 1, den: 90_000 }
    if (pixelAspect) stream.sampleAspectRatio = pixelAspect
    check(output.writeHeaderSync(null))
    const ticks = Math.round((FRAME_TICKS * stream.timeBase.den) / 90_000)
    for (const [i, unit] of units.entries()) {
      packet.data = unit
      packet.streamIndex = 0
      packet.pts = packet.dts = BigInt(i * ticks)
      packet.duration = BigInt(ticks)
      packet.isKeyframe = i % interval === 0
      check(output.interleavedWriteFrameSync(packet))
    }
    check(output.writeTrailerSync())
    return new Map(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name))]))
  } finally {
    packet.free()
    output.freeContext()
    rmSync(folder, { recursive: true })
  }
}
