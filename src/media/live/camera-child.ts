import type { ChildProcess } from 'node:child_process'
import type { Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import { serviceUnavailable } from '../../lib/errors/errors.ts'
import { limitWork } from '../../lib/guarded/work-limit.ts'
import type { GridRegion } from '../coordinates.ts'
import type { ImageTarget } from '../image-detail.ts'
import type { RgbImage, Size } from '../pixels.ts'
import { spawnConfined } from '../sandbox/confined-process.ts'
import type { CameraLoss, Pace } from './camera-source.ts'
import { LiveClip } from './live-clip.ts'
import { type FrameHolder, LiveFrame } from './live-frame.ts'
import type {
  CameraAnswer,
  CameraEvent,
  CameraMessage,
  ClipAbout,
  ClipFault,
  ClipSpan,
  FrameAbout,
  Received,
} from './protocol.ts'

/** Memory limit of one process, of which Node reserves much: enough for sixteen 4K cameras, or one of 8K. */
const MEMORY_BYTES = 2 * 2 ** 30
/** How long it may go without a heartbeat. */
const HEARTBEAT_MS = 2_000
/** Time limit for loading its code. */
const START_MS = 20_000
const RETRY_SECONDS = 5
/** The program of a camera process. */
export const PROGRAM = fileURLToPath(new URL('./process/camera-process.ts', import.meta.url))

export interface ArrivedFrame {
  readonly frame: LiveFrame
  readonly ageMs: number
  readonly cameraTime: number | null
}

/** Events of an open camera, for its owner. */
export interface CameraListener {
  onDelivering(): void
  /** The owner disposes of the frame. */
  onFrame(follower: number, arrived: ArrivedFrame): void
  /** The camera needs another connection: see `attach`. */
  onAgain(): void
  /** @param loss null when the process has ended. */
  onLost(loss: CameraLoss | null): void
}

/** A clip that is being recorded. */
export interface Recording {
  /** Resolves when the clip has ended, early if its camera ends. The owner disposes of it. */
  readonly ended: Promise<LiveClip | ClipFault>
  /** Ends it now. */
  finish(): void
}

export interface CameraChildOptions {
  /** Whether it confines itself before it reads. */
  readonly isConfined: boolean
  readonly program: string
  readonly onExit: (child: CameraChild) => void
  readonly onReceived: (received: Received) => void
}

/** The parent's side of one camera process. */
export class CameraChild implements FrameHolder {
  readonly #child: ChildProcess
  readonly #cameras = new Map<number, CameraListener>()
  readonly #questions = new Map<number, (value: CameraAnswer) => void>()
  readonly #ready = Promise.withResolvers<void>()
  readonly #exited = Promise.withResolvers<void>()
  #numbers = 0
  #limit: Disposable
  #isReady = false
  #isEnding = false
  #hasExited = false
  readonly #onReceived: CameraChildOptions['onReceived']

  constructor({ isConfined, program, onExit, onReceived }: CameraChildOptions) {
    this.#onReceived = onReceived
    this.#ready.promise.catch(() => {})
    this.#child = spawnConfined({
      ...{ program, memoryBytes: MEMORY_BYTES, isConfined },
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    })
    this.#limit = limitWork(this.pid, START_MS, () => this.#kill())
    this.#child.on('message', (event: CameraEvent) => this.#take(event))
    const onEnd = () => {
      if (this.#hasExited) return
      this.#hasExited = true
      this.#limit[Symbol.dispose]()
      this.#ready.reject(ended())
      for (const settle of this.#questions.values()) settle(null)
      this.#questions.clear()
      const cameras = [...this.#cameras.values()]
      this.#cameras.clear()
      onExit(this)
      for (const camera of cameras) camera.onLost(null)
      this.#exited.resolve()
    }
    this.#child.once('close', onEnd)
    // A process that could not start never emits `close`.
    this.#child.on('error', () => (this.pid === undefined ? onEnd() : this.#kill()))
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  /** Whether it has loaded its code. */
  get isReady(): boolean {
    return this.#isReady
  }

  get hasExited(): boolean {
    return this.#hasExited
  }

  /**
   * Gives the process a camera, over a socket that is connected to it.
   * @returns its number.
   * @throws ApiError 503 when the process has ended.
   */
  async open(
    about: Pick<Extract<CameraMessage, { type: 'open' }>, 'source' | 'silenceMs'>,
    socket: Socket,
    listener: CameraListener,
  ): Promise<number> {
    try {
      await this.#ready.promise
    } catch (error) {
      socket.destroy()
      throw error
    }
    const camera = ++this.#numbers
    this.#cameras.set(camera, listener)
    this.#hand({ type: 'open', camera, ...about }, socket)
    return camera
  }

  /** Gives a camera the new connection that it has asked for. */
  attach(camera: number, socket: Socket): void {
    this.#hand({ type: 'attach', camera }, socket)
  }

  close(camera: number): void {
    this.#cameras.delete(camera)
    this.#send({ type: 'close', camera })
  }

  follow(camera: number, follower: number, pace: Pace): void {
    this.#send({ type: 'follow', camera, follower, pace })
  }

  leave(camera: number, follower: number): void {
    this.#send({ type: 'leave', camera, follower })
  }

  want(camera: number, follower: number): void {
    this.#send({ type: 'want', camera, follower })
  }

  release(frame: number): void {
    this.#send({ type: 'release', frame })
  }

  async view(frame: number, target: ImageTarget | Size, region: GridRegion | null): Promise<RgbImage> {
    const image = await this.#ask((question) => ({ type: 'view', question, frame, target, region }))
    if (image === null) throw ended()
    return image as RgbImage
  }

  async jpeg(frame: number): Promise<Uint8Array> {
    const bytes = await this.#ask((question) => ({ type: 'jpeg', question, frame }))
    if (bytes === null) throw ended()
    return bytes as Uint8Array
  }

  /** The newest frame of a camera as a JPEG; null before the first one. */
  async newest(camera: number): Promise<Uint8Array | null> {
    return (await this.#ask((question) => ({ type: 'newest', question, camera }))) as Uint8Array | null
  }

  /** Records a clip of a camera. */
  record(camera: number, span: ClipSpan): Recording {
    const clip = ++this.#numbers
    const answer = this.#ask((question) => ({ type: 'record', question, camera, clip, span }))
    const ended = answer.then((value) => {
      if (value === null || typeof value === 'string') return value ?? 'stopped'
      return new LiveClip(value as ClipAbout, {
        piece: () => this.#ask((question) => ({ type: 'piece', question, clip })) as Promise<Uint8Array | null>,
        drop: () => this.#send({ type: 'drop', clip }),
      })
    })
    return { ended, finish: () => this.#send({ type: 'finish', clip }) }
  }

  get isEnding(): boolean {
    return this.#isEnding
  }

  async end(): Promise<void> {
    this.#isEnding = true
    this.#kill()
    await this.#exited.promise
  }

  #kill(): void {
    this.#child.kill('SIGKILL')
  }

  #ask(message: (question: number) => CameraMessage): Promise<CameraAnswer> {
    if (this.#hasExited) return Promise.resolve(null)
    const { promise, resolve } = Promise.withResolvers<CameraAnswer>()
    const question = ++this.#numbers
    this.#questions.set(question, resolve)
    this.#send(message(question))
    return promise
  }

  /** Node closes the socket here once the other process has it. */
  #hand(message: CameraMessage, socket: Socket): void {
    this.#child.send(message, socket, (error) => {
      if (error === null) return
      socket.destroy()
      this.#kill()
    })
  }

  #send(message: CameraMessage): void {
    if (!this.#hasExited && this.#isReady) this.#child.send(message, () => {})
  }

  #take(event: CameraEvent): void {
    this.#renew()
    if (event.type === 'beat') this.#onReceived(countsOf(event.received))
    else if (event.type === 'ready') {
      this.#isReady = true
      this.#ready.resolve()
    } else if (event.type === 'answer') {
      this.#questions.get(event.question)?.(event.value)
      this.#questions.delete(event.question)
    } else if (event.type === 'frame') this.#arrived(event)
    else if (event.type === 'delivering') this.#cameras.get(event.camera)?.onDelivering()
    else if (event.type === 'again') this.#cameras.get(event.camera)?.onAgain()
    else if (event.type === 'lost') {
      const listener = this.#cameras.get(event.camera)
      this.#cameras.delete(event.camera)
      listener?.onLost({ fault: event.fault, message: textOf(event.message) })
    }
  }

  #renew(): void {
    if (this.#hasExited) return
    this.#limit[Symbol.dispose]()
    this.#limit = limitWork(this.pid, HEARTBEAT_MS, () => this.#kill())
  }

  #arrived({
    camera,
    follower,
    frame,
    original,
    ageMs,
    cameraTime,
  }: FrameAbout & { camera: number; follower: number }) {
    const live = new LiveFrame(frame, original, this)
    const listener = this.#cameras.get(camera)
    if (listener === undefined) live[Symbol.dispose]()
    else listener.onFrame(follower, { frame: live, ageMs, cameraTime })
  }
}

/** Sanitises counts from a process that a camera may have taken over. */
function countsOf(received: Received): Received {
  const count = (value: unknown) => (Number.isSafeInteger(value) ? Math.max(0, value as number) : 0)
  const { bytes, frames, pictures } = received
  return { bytes: count(bytes), frames: count(frames), pictures: count(pictures) }
}

const LONGEST_MESSAGE = 200

function textOf(message: unknown): string {
  return String(message)
    .slice(0, LONGEST_MESSAGE)
    .replaceAll(/\p{Cc}/gu, ' ')
}

function ended(): Error {
  return serviceUnavailable('The process that had the camera’s frame has ended', RETRY_SECONDS)
}
