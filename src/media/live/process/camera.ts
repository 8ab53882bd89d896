import type { Socket } from 'node:net'
import type { FFmpeg } from '../../decoding/ffmpeg.ts'
import { type CameraLoss, type CameraSource, FIRST_PICTURE } from '../camera-source.ts'
import type { CameraEvent, Received } from '../protocol.ts'
import { type AccessUnit, CameraError, type CameraSession, CLOSED, type SessionHooks } from './camera-session.ts'
import { openWire, say } from './camera-wire.ts'
import type { ClipSource } from './clip-store.ts'
import { Followers } from './followers.ts'
import { type FrameStore, originalSize } from './frame-store.ts'
import { Login } from './protocols/digest.ts'
import { openSession } from './protocols/open-session.ts'
import { UnitDecoder } from './unit-decoder.ts'
import { UnitQueue } from './unit-queue.ts'
import { UnitRing } from './unit-ring.ts'

export interface CameraOptions {
  readonly number: number
  readonly source: CameraSource
  readonly socket: Socket
  readonly silenceMs: number
  readonly ffmpeg: FFmpeg
  readonly frames: FrameStore
  /** Counts what the camera sends. */
  readonly received: Received
  readonly send: (event: CameraEvent) => void
}

const TICK_MS = 500
/** Tick for cameras that are asked for each picture or segment. */
const ASKING_TICK_MS = 100
/** A camera that sends nothing for this many of its usual intervals is silent. */
const SILENT_DISTANCES = 3
/** A backlog has ended when nothing has arrived for this long. */
const QUIET_MS = 20

/** One camera: decodes what it sends, and hands out the pictures that followers want. */
export class Camera {
  readonly followers = new Followers()
  readonly #options: CameraOptions
  /** The socket, or TLS over it, to write to. Null while the camera waits for another one. */
  #wire: Socket | null = null
  /** Null until the camera's certificate is trusted. */
  #session: CameraSession | null = null
  readonly #decoder: UnitDecoder
  readonly #queue = new UnitQueue()
  readonly #ring = new UnitRing()
  readonly #ticker: NodeJS.Timeout
  /** Timers that decode the waiting units: at once, or when a backlog has ended. */
  #drain: NodeJS.Immediate | null = null
  #quiet: NodeJS.Timeout | undefined
  #dueTimer: NodeJS.Timeout | undefined
  /** Counts units; `#decoded` is the one that the newest picture was decoded with. */
  #units = 0
  #decoded = 0
  #lastTick = performance.now()
  #lastUnit = performance.now()
  /** Since when decoding has yielded no picture; null while it does. */
  #blindSince: number | null = performance.now()
  #lastAsked = Number.NEGATIVE_INFINITY
  #distance = 0
  /** Whether each unit is a key frame. */
  #isIntra = false
  /** Since when it has been playing; null before that. */
  #playingSince: number | null = null
  #isDelivering = false
  #hasEnded = false

  constructor(options: CameraOptions) {
    this.#options = options
    this.#decoder = new UnitDecoder(options.ffmpeg)
    const { type } = options.source
    this.#ticker = setInterval(() => this.#tick(), this.#isAsked || type === 'hls' ? ASKING_TICK_MS : TICK_MS)
    this.#connect(options.socket)
  }

  /** Goes on over another connection. Undefined if that has already ended. */
  attach(socket: Socket | undefined): void {
    if (socket === undefined) this.#end(HAS_CLOSED)
    else this.#connect(socket)
  }

  #connect(socket: Socket): void {
    const { source, received } = this.#options
    // The wire may be ready before this returns, and sending then needs `#wire`.
    this.#wire = socket
    const wire = openWire(socket, source, {
      onReady: (isTrusted) => (isTrusted ? this.#guarded(() => this.#open()) : this.#end(UNTRUSTED)),
      onBytes: (bytes) => {
        received.bytes += bytes.length
        this.#guarded(() => this.#session?.feed(bytes))
      },
      onEnd: () => this.#guarded(() => this.#session?.end()),
      onClose: () => {
        if (this.#wire !== wire) return
        // A session that waits for nothing connects again when it next asks for something.
        if (this.#session?.isIdle === true) this.#guarded(() => this.#session!.end())
        else this.#end(HAS_CLOSED)
      },
    })
    this.#wire = wire
  }

  #open(): void {
    if (this.#session !== null) {
      this.#session.reopen!()
      return
    }
    const { type, url, username, password } = this.#options.source
    const login = new Login(username ?? undefined, password ?? undefined)
    const hooks: SessionHooks = {
      send: (bytes) => this.#wire && say(this.#wire, bytes),
      onUnit: (unit) => this.#take(unit),
      onPlaying: () => {
        this.#playingSince ??= performance.now()
      },
      onError: (error) => this.#fail(error),
    }
    this.#session = openSession({ type, url: new URL(url) }, login, hooks, this.#options.ffmpeg)
  }

  /** A follower has joined, left, or wants a frame. */
  update(): void {
    this.#ring.keepMs = this.followers.keepMs
    this.#choose()
    this.#serve()
  }

  /** The newest picture as a JPEG; null before the first one. */
  async newest(): Promise<Uint8Array | null> {
    this.#decode()
    const { newest } = this.#decoder
    return newest === null ? null : this.#options.frames.jpegOf(newest.frame)
  }

  get clipSource(): ClipSource {
    const { newest } = this.#decoder
    const size = newest && { width: newest.frame.width, height: newest.frame.height }
    return { ring: this.#ring, size: this.#isIntra ? null : size }
  }

  /** Ends the session with the camera in order. */
  close(): void {
    if (this.#hasEnded) return
    try {
      this.#session?.close()
    } catch {
      // It had nothing to say.
    }
    this.#stop()
    const wire = this.#wire
    wire?.end()
    wire?.setTimeout(TICK_MS, () => wire.destroy())
  }

  #guarded(work: () => void): void {
    if (this.#hasEnded) return
    try {
      work()
    } catch (error) {
      this.#fail(error)
    }
  }

  #fail(error: unknown): void {
    if (error instanceof CameraError && error.reason === 'again') this.#reconnect()
    else this.#end(lossOf(error))
  }

  /** Whether the camera is asked for each picture. */
  get #isAsked(): boolean {
    return this.#options.source.type === 'jpeg'
  }

  get #sendsUnasked(): boolean {
    const { type } = this.#options.source
    return type === 'rtsp' || type === 'mjpeg'
  }

  #tick(): void {
    const now = performance.now()
    // While this process was stalled, nothing could arrive.
    const stoodMs = Math.max(0, now - this.#lastTick - 2 * TICK_MS)
    this.#lastTick = now
    this.#lastUnit += stoodMs
    if (this.#playingSince !== null) this.#playingSince += stoodMs
    if (this.#blindSince !== null) this.#blindSince += stoodMs
    const { everyMs } = this.followers
    if (this.#wire !== null && (!this.#isAsked || now - this.#lastAsked >= everyMs)) {
      this.#lastAsked = now
      this.#guarded(() => this.#session?.tick(now))
    }
    const { silenceMs } = this.#options
    const pause = this.#isAsked && Number.isFinite(everyMs) ? everyMs : (this.#session?.patienceMs ?? 0)
    const usual = Math.max(silenceMs, SILENT_DISTANCES * this.#distance) + pause
    const first = FIRST_PICTURE * usual
    // The interval of a camera that sends unasked is known only after a while; some send their first picture twice.
    const isPlaying = this.#playingSince !== null
    const isUnknown = isPlaying && this.#sendsUnasked && this.#lastUnit - this.#playingSince! < silenceMs
    const silence = isUnknown ? Math.max(first, Number.isFinite(everyMs) ? SILENT_DISTANCES * everyMs : 0) : usual
    if (now - this.#lastUnit > silence) this.#end(isPlaying && this.#units === 0 ? EMPTY : SILENT)
    else if (this.#blindSince !== null && now - this.#blindSince > Math.max(first, silence)) this.#end(BLIND)
  }

  #take(unit: AccessUnit): void {
    const now = performance.now()
    if (this.#units++ > 0) this.#distance = Math.max(now - this.#lastUnit, this.#distance * DECAY)
    this.#lastUnit = now
    this.#options.received.frames++
    this.#queue.add(unit, now)
    this.#ring.add(unit, now)
    this.#isIntra = unit.codec === 'jpeg'
    this.#choose()
    this.#schedule()
  }

  /** Chooses whether key frames are enough. */
  #choose(): void {
    this.#queue.isKeysOnly = this.#isIntra || this.followers.needKeysOnly(this.#queue.keyDistanceMs)
  }

  /** Decodes what has arrived, once everything available is read. Only the end of a backlog is decoded. */
  #schedule(): void {
    if (this.#queue.isLate) {
      this.#unschedule()
      this.#quiet = setTimeout(() => this.#arrived(), QUIET_MS)
    } else this.#drain ??= setImmediate(() => this.#arrived())
  }

  #unschedule(): void {
    clearImmediate(this.#drain ?? undefined)
    this.#drain = null
    clearTimeout(this.#quiet)
  }

  #arrived(): void {
    this.#unschedule()
    // Key frames wait until a follower wants one.
    if (!this.#queue.isKeysOnly || !this.#isDelivering) this.#decode()
    this.#serve()
  }

  #decode(): void {
    const units = this.#queue.take()
    if (units.length === 0) return
    const before = this.#decoder.pictures
    for (const { unit, time, afterSkip } of units) {
      if (afterSkip) this.#decoder.restart()
      this.#decoder.decode(unit, time, this.#queue.isKeysOnly)
    }
    this.#options.received.pictures += this.#decoder.pictures - before
    if (this.#decoder.pictures === before) {
      this.#blindSince ??= performance.now()
      return
    }
    this.#decoded = this.#units
    this.#blindSince = null
    if (this.#isDelivering) return
    this.#isDelivering = true
    this.#options.send({ type: 'delivering', camera: this.#options.number })
  }

  #serve(): void {
    if (this.#hasEnded) return
    const { number: camera, frames, send } = this.#options
    const now = performance.now()
    const waiting = this.#queue.isEmpty ? this.#decoded : this.#units
    if (this.#queue.isKeysOnly && this.followers.areDue(waiting, now)) this.#decode()
    const { newest } = this.#decoder
    if (newest !== null) {
      for (const follower of this.followers.take(this.#decoded, now)) {
        const frame = frames.keep(newest.frame)
        if (frame === null) continue
        const { at, cameraTime } = newest.time
        const about = { frame, original: originalSize(newest.frame), ageMs: now - at, cameraTime }
        send({ type: 'frame', camera, follower, ...about })
      }
    }
    clearTimeout(this.#dueTimer)
    const next = this.followers.nextDue(this.#queue.isEmpty ? this.#decoded : this.#units)
    if (next !== null && next > now) this.#dueTimer = setTimeout(() => this.#serve(), next - now)
  }

  /** Has the parent connect again. */
  #reconnect(): void {
    this.#wire?.destroy()
    this.#wire = null
    this.#options.send({ type: 'again', camera: this.#options.number })
  }

  #end(loss: CameraLoss): void {
    if (this.#hasEnded) return
    this.#stop()
    this.#wire?.destroy()
    this.#options.send({ type: 'lost', camera: this.#options.number, ...loss })
  }

  #stop(): void {
    this.#hasEnded = true
    this.#session?.[Symbol.dispose]?.()
    clearInterval(this.#ticker)
    clearTimeout(this.#dueTimer)
    this.#unschedule()
    this.#queue.take()
    this.#ring.close()
    this.#decoder[Symbol.dispose]()
  }
}

/** The usual interval is the longest recent one, which is forgotten slowly. */
const DECAY = 0.98

const HAS_CLOSED: CameraLoss = { fault: 'unreachable', message: CLOSED }
const SILENT: CameraLoss = { fault: 'silent', message: 'The camera sends nothing' }
const EMPTY: CameraLoss = { fault: 'no_video', message: 'The camera plays, but sends no picture' }
const BLIND: CameraLoss = {
  fault: 'no_video',
  message: 'The camera sends video, but no key frame for too long, or none that can be decoded',
}
const UNTRUSTED: CameraLoss = { fault: 'untrusted', message: 'Its certificate cannot be verified' }

function lossOf(error: unknown): CameraLoss {
  if (!(error instanceof CameraError))
    return { fault: 'unsupported_codec', message: 'What the camera sends cannot be decoded' }
  const { reason, message } = error
  return { fault: reason === 'protocol' || reason === 'again' ? 'unreachable' : reason, message }
}
