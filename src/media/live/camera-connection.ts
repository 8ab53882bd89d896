import type { Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { HostResolver } from '../../lib/public-address.ts'
import type { ArrivedFrame, CameraChild, Recording } from './camera-child.ts'
import { DialError, dial } from './camera-dial.ts'
import type { CameraHosts } from './camera-hosts.ts'
import { type CameraFault, type CameraLoss, type CameraSource, type Pace, placeOf } from './camera-source.ts'
import type { ClipSpan, Received } from './protocol.ts'

/** How long cameras may be silent, and how soon connections are retried. */
export interface CameraTimes {
  /** The shortest time without frames after which a connection is closed. */
  readonly silenceMs: number
  /** Delay before the first retry; doubled for each further one. */
  readonly firstBackOffMs: number
  readonly longestBackOffMs: number
  /** Delay after a failed login: cameras lock out clients that try wrong passwords. */
  readonly unauthorizedMs: number
}

export interface ConnectionOptions {
  readonly source: CameraSource
  /** Hosts that it may connect to; null for any. */
  readonly hosts: CameraHosts | null
  readonly resolve: HostResolver | undefined
  readonly times: CameraTimes
  /** A process with a place for the camera. */
  readonly process: () => CameraChild
  readonly onUnused: () => void
  readonly meter: CameraMeter | null
  readonly warn: ((message: string) => void) | undefined
}

/** Measures what all cameras do. */
export interface CameraMeter {
  /** A camera delivers again. */
  cameraConnected(): void
  /** A camera delivers no longer, or a connection to it has failed. */
  cameraFailed(reason: CameraFault | 'process'): void
  cameraReceived(received: Received): void
}

/** A consumer of a camera's frames. */
export interface Follower {
  readonly pace: Pace
  /** The follower disposes of the frame. */
  onFrame(arrived: ArrivedFrame): void
  /** The camera has started or stopped delivering. */
  onState(): void
}

interface Attempt {
  /** Null if its process has ended. */
  readonly loss: CameraLoss | null
  /** How long it delivered; null for not at all. */
  readonly deliveredMs: number | null
}

interface Open {
  readonly child: CameraChild
  readonly camera: number
}

/** The random share of a wait, so that cameras behind one switch are not all retried at the same time. */
const JITTER = 0.5
/** After a connection that delivered for at least this long, the first retry comes soon. */
const GOOD_MS = 10_000

/** One camera: its connection, which is retried for ever. */
export class CameraConnection {
  readonly #options: ConnectionOptions
  readonly #followers = new Map<number, Follower>()
  /** Followers that wait for a frame. */
  readonly #wanting = new Set<number>()
  readonly #closing = new AbortController()
  readonly #ended: Promise<void>
  #open: Open | null = null
  #numbers = 0
  #loss: CameraLoss | null = null
  #isDelivering = false

  constructor(options: ConnectionOptions) {
    this.#options = options
    this.#ended = this.#run()
  }

  /** Whether frames arrive. */
  get isDelivering(): boolean {
    return this.#isDelivering
  }

  /** Why no frames arrive; null while they do, and before the reason is known. */
  get fault(): CameraFault | null {
    return this.#loss?.fault ?? null
  }

  /** Details of the fault. */
  get message(): string | null {
    return this.#loss?.message ?? null
  }

  follow(follower: Follower): number {
    const number = ++this.#numbers
    this.#followers.set(number, follower)
    this.#tell(({ child, camera }) => child.follow(camera, number, follower.pace))
    return number
  }

  change(number: number, follower: Follower): void {
    this.#followers.set(number, follower)
    this.#tell(({ child, camera }) => child.follow(camera, number, follower.pace))
  }

  want(number: number): void {
    if (!this.#followers.has(number)) return
    this.#wanting.add(number)
    this.#tell(({ child, camera }) => child.want(camera, number))
  }

  leave(number: number): void {
    this.#followers.delete(number)
    this.#wanting.delete(number)
    this.#tell(({ child, camera }) => child.leave(camera, number))
    if (this.#followers.size === 0) this.#options.onUnused()
  }

  /** The newest frame as a JPEG; null if there is none. */
  async newest(): Promise<Uint8Array | null> {
    return this.#isDelivering && this.#open !== null ? this.#open.child.newest(this.#open.camera) : null
  }

  /** Records a clip; null if the camera is not connected. */
  record(span: ClipSpan): Recording | null {
    return this.#open === null ? null : this.#open.child.record(this.#open.camera, span)
  }

  async close(): Promise<void> {
    this.#closing.abort()
    this.#tell(({ child, camera }) => child.close(camera))
    await this.#ended
  }

  #tell(say: (open: Open) => void): void {
    if (this.#open !== null) say(this.#open)
  }

  async #run(): Promise<void> {
    const { times } = this.#options
    const { signal } = this.#closing
    let failures = 0
    while (!signal.aborted) {
      const { loss, deliveredMs } = await this.#attempt()
      if (signal.aborted) break
      failures = deliveredMs !== null && deliveredMs >= GOOD_MS ? 1 : failures + 1
      this.#note(false, loss)
      const waitMs = Math.min(times.longestBackOffMs, times.firstBackOffMs * 2 ** Math.min(failures - 1, 30))
      const leastMs = loss?.fault === 'unauthorized' ? times.unauthorizedMs : 0
      await this.#wait(Math.max(waitMs * (1 - JITTER * Math.random()), leastMs))
    }
  }

  async #wait(ms: number): Promise<void> {
    await delay(ms, undefined, { signal: this.#closing.signal, ref: false }).catch(() => {})
  }

  #dial(): Promise<Socket> {
    const { source, hosts, resolve } = this.#options
    return dial(source, { hosts, resolve, signal: this.#closing.signal })
  }

  /** Connects, and resolves when the camera has ended. */
  async #attempt(): Promise<Attempt> {
    let socket: Socket
    try {
      socket = await this.#dial()
    } catch (error) {
      return { loss: lossOf(error), deliveredMs: null }
    }
    try {
      return await this.#speak(socket)
    } catch {
      // Its process has ended, or could not start.
      socket.destroy()
      return { loss: null, deliveredMs: null }
    }
  }

  async #speak(socket: Socket): Promise<Attempt> {
    const { source, times } = this.#options
    const child = this.#options.process()
    const lost = Promise.withResolvers<CameraLoss | null>()
    const stop = () => lost.resolve(null)
    this.#closing.signal.addEventListener('abort', stop, { once: true })
    let since: number | null = null
    const camera = await child.open({ source, silenceMs: times.silenceMs }, socket, {
      onDelivering: () => {
        since = performance.now()
        this.#note(true, null)
      },
      onFrame: (number, arrived) => {
        const follower = this.#wanting.delete(number) ? this.#followers.get(number) : undefined
        if (follower === undefined) arrived.frame[Symbol.dispose]()
        else follower.onFrame(arrived)
      },
      onAgain: () => void this.#attach(lost.resolve),
      onLost: (loss) => lost.resolve(loss),
    })
    try {
      this.#open = { child, camera }
      for (const [number, { pace }] of this.#followers) child.follow(camera, number, pace)
      for (const number of this.#wanting) child.want(camera, number)
      if (this.#closing.signal.aborted) child.close(camera)
      const loss = await lost.promise
      return { loss, deliveredMs: since === null ? null : performance.now() - since }
    } finally {
      this.#open = null
      this.#closing.signal.removeEventListener('abort', stop)
    }
  }

  /** Makes the new connection that the open camera has asked for. */
  async #attach(onLost: (loss: CameraLoss | null) => void): Promise<void> {
    const open = this.#open!
    try {
      const socket = await this.#dial()
      if (this.#open === open) open.child.attach(open.camera, socket)
      else socket.destroy()
    } catch (error) {
      if (this.#open === open) open.child.close(open.camera)
      onLost(lossOf(error))
    }
  }

  #note(isDelivering: boolean, loss: CameraLoss | null): void {
    const { meter, source, warn } = this.#options
    if (!isDelivering) meter?.cameraFailed(loss?.fault ?? 'process')
    else if (!this.#isDelivering) meter?.cameraConnected()
    this.#isDelivering = isDelivering
    const known = this.#loss
    this.#loss = loss
    if (loss !== null && (loss.fault !== known?.fault || loss.message !== known.message)) {
      const { host, port } = placeOf(source)
      warn?.(`A camera at ${host}, port ${port}, delivers nothing: ${loss.fault}: ${loss.message}`)
    }
    for (const follower of this.#followers.values()) follower.onState()
  }
}

/** Why no connection was made; null if the attempt was aborted. */
function lossOf(error: unknown): CameraLoss | null {
  return error instanceof DialError ? error : null
}
