import { type AccessUnit, CameraError, type CameraSession, CLOSED, type SessionHooks } from '../camera-session.ts'
import { ByteQueue } from './byte-queue.ts'
import type { Login } from './digest.ts'
import { H264, kindOfH264 } from './h264.ts'
import { H265, kindOfH265 } from './h265.ts'
import { JpegDepacketizer } from './jpeg.ts'
import { contentLengthOf, headerOf, type MessageHead, statusOf, takeHead } from './message-head.ts'
import { NalDepacketizer } from './nal-depacketizer.ts'
import { type RtpPacket, RtpReceiver } from './rtp.ts'
import { type VideoTrack, videoTrackOf } from './sdp.ts'
import { UnitAssembler } from './unit-assembler.ts'

const MAX_BODY = 64 * 1024
/** The most bytes between two messages that belong to neither. */
const MAX_GARBAGE = 64 * 1024
/** Begins a frame of a channel: `$`, the channel, and two bytes of length. Its bytes follow. */
const DOLLAR = 0x24
const RTSP = Buffer.from('RTSP')
/** A frame without bytes. */
const SHORTEST = 4
/** Timeout of a session that gives none, in seconds. */
const USUAL_TIMEOUT = 60
/** `RTSP` of an answer, or the beginning of a method: a request of the camera. */
const WORD = /^[A-Z_]{4}$/

interface Depacketizer {
  push(packet: RtpPacket): void
}

interface Request {
  readonly method: string
  readonly uri: string
  readonly headers: Readonly<Record<string, string>>
  readonly onReply: (status: number, head: MessageHead, body: Buffer) => void
}

/** The video of an RTSP server (RFC 2326), over the connection that it is asked on. */
export class RtspSession implements CameraSession {
  readonly #hooks: SessionHooks
  readonly #login: Login
  readonly #uri: string
  readonly #queue = new ByteQueue()
  /** The request that waits for its answer. */
  #request: Request | null = null
  #cseq = 0
  #head: MessageHead | null = null
  #bodyLength = 0
  #garbage = 0
  /** The receiver and channel of the video's packets, and the camera's names for the session and its addresses. */
  #receiver: RtpReceiver | null = null
  #depacketizer: Depacketizer | null = null
  #channel = 0
  #session: string | null = null
  #base: string
  #keepAlive = 'OPTIONS'
  #interval = 0
  #isPlaying = false
  #aliveAt: number | null = null

  constructor(url: URL, login: Login, hooks: SessionHooks) {
    this.#hooks = hooks
    this.#login = login
    this.#uri = `${url.protocol}//${url.host}${url.pathname}${url.search}`
    this.#base = this.#uri
    this.#ask('OPTIONS', this.#uri, {}, (_, head) => {
      if (/\bGET_PARAMETER\b/i.test(headerOf(head, 'public') ?? '')) this.#keepAlive = 'GET_PARAMETER'
      this.#describe()
    })
  }

  feed(bytes: Uint8Array): void {
    this.#queue.push(bytes)
    while (this.#step());
  }

  tick(nowMs: number): void {
    if (!this.#isPlaying) return
    this.#aliveAt ??= nowMs
    if (nowMs - this.#aliveAt < this.#interval) return
    this.#aliveAt = nowMs
    this.#ask(this.#keepAlive, this.#base, {}, (status) => {
      if (status === 454) throw new CameraError('protocol', 'The camera has ended the session')
      // Some cameras list methods that they do not support.
      if (status >= 400) this.#keepAlive = 'OPTIONS'
    })
  }

  end(): never {
    throw new CameraError('protocol', CLOSED)
  }

  close(): void {
    if (this.#session !== null) this.#ask('TEARDOWN', this.#base, {}, () => {})
  }

  /** @returns whether there may be more to read. */
  #step(): boolean {
    const queue = this.#queue
    if (this.#head !== null) {
      if (queue.length < this.#bodyLength) return false
      const head = this.#head
      this.#head = null
      this.#answered(head, queue.take(this.#bodyLength))
      return true
    }
    if (queue.length < SHORTEST) return false
    if (queue.at(0) === DOLLAR) {
      const length = (queue.at(2) << 8) | queue.at(3)
      if (length > 0 && queue.length === SHORTEST) return false
      // Both RTP and RTCP begin with their version.
      if (length === 0 || queue.at(SHORTEST) >> 6 === 2) {
        if (queue.length < SHORTEST + length) return false
        const frame = queue.take(SHORTEST + length)
        this.#garbage = 0
        this.#received(frame[1]!, frame.subarray(SHORTEST))
        return true
      }
    } else if (this.#beginsHead(queue.peek(SHORTEST))) {
      const head = takeHead(queue)
      if (head === null) return false
      this.#garbage = 0
      this.#bodyLength = contentLengthOf(head, MAX_BODY) ?? 0
      this.#head = head
      return true
    }
    this.#skip()
    return true
  }

  #beginsHead(bytes: Buffer): boolean {
    return this.#garbage === 0 ? WORD.test(bytes.toString('latin1')) : bytes.equals(RTSP)
  }

  /** Looks for the next message: some cameras lose bytes, or send some of their own. */
  #skip(): void {
    const rest = this.#queue.peek(this.#queue.length)
    const dollar = rest.indexOf(DOLLAR, 1)
    const before = dollar < 0 ? rest : rest.subarray(0, dollar)
    const answer = before.indexOf(RTSP, 1)
    // The last bytes may be the beginning of one.
    const length = answer > 0 ? answer : dollar > 0 ? dollar : rest.length - SHORTEST + 1
    this.#garbage += length
    if (this.#garbage > MAX_GARBAGE) throw new CameraError('protocol', 'The camera does not speak RTSP')
    this.#queue.take(length)
  }

  #received(channel: number, packet: Buffer): void {
    if (this.#receiver === null) return
    if (channel !== this.#channel) this.#receiver.report(packet)
    else {
      const rtp = this.#receiver.read(packet)
      if (rtp !== null) this.#depacketizer!.push(rtp)
    }
  }

  #answered(head: MessageHead, body: Buffer): void {
    const status = statusOf(head)
    if (status === null) {
      if (head.start.startsWith('REDIRECT')) throw redirected()
      return
    }
    const request = this.#request
    const cseq = headerOf(head, 'cseq')
    // A late answer to a request that is no longer pending.
    if (status < 200 || request === null || (cseq !== null && Number(cseq) !== this.#cseq)) return
    this.#request = null
    if (status === 401) {
      this.#login.challenged(head.headers.get('www-authenticate') ?? [])
      this.#ask(request.method, request.uri, request.headers, request.onReply)
      return
    }
    this.#login.accepted()
    if (status >= 300 && status < 400) throw redirected()
    request.onReply(status, head, body)
  }

  #ask(method: string, uri: string, headers: Request['headers'], onReply: Request['onReply']): void {
    this.#request = { method, uri, headers, onReply }
    const authorization = this.#login.authorization(method, uri)
    const lines = Object.entries({
      CSeq: String(++this.#cseq),
      'User-Agent': 'Lookout',
      ...(this.#session === null ? {} : { Session: this.#session }),
      ...(authorization === null ? {} : { Authorization: authorization }),
      ...headers,
    }).map(([name, value]) => `${name}: ${value}\r\n`)
    this.#hooks.send(Buffer.from(`${method} ${uri} RTSP/1.0\r\n${lines.join('')}\r\n`))
  }

  /** Sends a request that must succeed. */
  #need(method: string, uri: string, headers: Request['headers'], onReply: (head: MessageHead, body: Buffer) => void) {
    this.#ask(method, uri, headers, (status, head, body) => {
      if (status === 461) throw new CameraError('refused', 'The camera does not offer RTSP over TCP')
      if (status >= 400) throw new CameraError('refused', `The camera answers ${method} with ${status}`)
      onReply(head, body)
    })
  }

  #describe(): void {
    this.#need('DESCRIBE', this.#uri, { Accept: 'application/sdp' }, (head, body) => {
      this.#base = (headerOf(head, 'content-base') || headerOf(head, 'content-location') || this.#uri).split(/\s/)[0]!
      this.#setUp(videoTrackOf(body.toString()))
    })
  }

  #setUp(track: VideoTrack): void {
    const { control } = track
    const isAbsolute = /^rtsps?:/i.test(control ?? '')
    // Not resolved as a URL: cameras expect that the part after the last slash is kept.
    const relative = control === null || control === '*' ? this.#base : `${this.#base.replace(/\/$/, '')}/${control}`
    const uri = isAbsolute ? control! : relative
    this.#need('SETUP', uri, { Transport: 'RTP/AVP/TCP;unicast;interleaved=0-1' }, (head) => {
      const session = headerOf(head, 'session')?.split(';')
      if (session === undefined) throw new CameraError('protocol', 'The camera opens no session')
      this.#session = session[0]!.trim()
      const timeout = Number(/timeout\s*=\s*(\d{1,6})/i.exec(session[1] ?? '')?.[1] ?? USUAL_TIMEOUT)
      this.#interval = Math.max(1, timeout / 2) * 1000
      this.#channel = Number(/interleaved=(\d{1,3})/i.exec(headerOf(head, 'transport') ?? '')?.[1] ?? 0)
      this.#receiver = new RtpReceiver(track)
      this.#depacketizer = this.#depacketizerOf(track)
      this.#need('PLAY', this.#base, { Range: 'npt=0.000-' }, () => {
        this.#isPlaying = true
        this.#hooks.onPlaying?.()
      })
    })
  }

  #depacketizerOf({ codec, parameterSets }: VideoTrack): Depacketizer {
    const onUnit = (unit: AccessUnit) => this.#hooks.onUnit(unit)
    if (codec === 'jpeg') return new JpegDepacketizer(onUnit)
    const [syntax, kindOf] = codec === 'h264' ? [H264, kindOfH264] : [H265, kindOfH265]
    return new NalDepacketizer(syntax, new UnitAssembler(codec, kindOf, parameterSets, onUnit))
  }
}

function redirected(): CameraError {
  return new CameraError('refused', 'The camera redirects elsewhere, which Lookout does not follow')
}
