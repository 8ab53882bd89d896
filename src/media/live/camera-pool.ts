import { hash } from 'node:crypto'
import type { HostResolver } from '../../lib/public-address.ts'
import { chooseSandbox, type SandboxMode } from '../sandbox/choice.ts'
import { CameraChild, PROGRAM, type Recording } from './camera-child.ts'
import { CameraConnection, type CameraMeter, type CameraTimes, type Follower } from './camera-connection.ts'
import { CONNECT_MS } from './camera-dial.ts'
import type { CameraHosts } from './camera-hosts.ts'
import { type CameraFault, type CameraSource, FIRST_PICTURE } from './camera-source.ts'
import type { ClipSpan } from './protocol.ts'

export interface CameraPoolOptions {
  /** Whether the processes confine themselves before they read; by default, if the system supports it. */
  readonly sandbox?: SandboxMode | undefined
  readonly resolve?: HostResolver | undefined
  readonly times?: Partial<CameraTimes> | undefined
  readonly warn?: ((message: string) => void) | undefined
  readonly meter?: CameraMeter | null | undefined
  /** The program of the processes. Tests replace it by a hostile one. */
  readonly program?: string
}

/** A camera that is followed. */
export interface FollowedCamera {
  /** Whether frames arrive. */
  readonly isDelivering: boolean
  /** Why no frames arrive; null while they do, and before the reason is known. */
  readonly fault: CameraFault | null
  /** Details of the fault. */
  readonly message: string | null
  /** Asks for one frame: the newest one, as soon as it is due. */
  want(): void
  /** Changes the pace from now on. */
  change(follower: Follower): void
  /** The newest frame as a JPEG; null if there is none. */
  newest(): Promise<Uint8Array | null>
  /** Records a clip of video that was kept (`Pace.keepMs`) and of what follows; null if the camera is not connected. */
  record(span: ClipSpan): Recording | null
  close(): void
}

const TIMES: CameraTimes = {
  silenceMs: 5_000,
  firstBackOffMs: 1_000,
  longestBackOffMs: 60_000,
  unauthorizedMs: 60_000,
}
/** The most cameras of one process. */
const MOST_CAMERAS = 16
/** A camera that was open when this many processes crashed gets a process of its own, for this long. */
const SUSPECT_CRASHES = 2
const SUSPECT_MS = 600_000

interface Known {
  readonly organisation: string
  readonly connection: CameraConnection
  child: CameraChild | null
  /** When processes that had the camera open crashed. */
  crashes: readonly number[]
}

/**
 * Cameras that are followed, each over one connection. No process parses cameras of two organisations. A process that
 * has crashed is replaced, and its cameras are connected again.
 */
export class CameraPool {
  readonly #options: CameraPoolOptions
  readonly #isConfined: boolean
  readonly #cameras = new Map<string, Known>()
  readonly #children = new Set<CameraChild>()
  #isClosed = false

  /** @throws Error when a sandbox is required and the system has none. */
  constructor(options: CameraPoolOptions = {}) {
    this.#options = options
    this.#isConfined = chooseSandbox(options.sandbox ?? 'auto').isOn
  }

  /** Ids of the running processes. */
  get pids(): number[] {
    return [...this.#children].flatMap(({ pid }) => pid ?? [])
  }

  /**
   * Follows a camera. Followers of one organisation share the connection to it.
   * @param hosts that it may be at; null for any.
   */
  follow(organisation: string, source: CameraSource, hosts: CameraHosts | null, follower: Follower): FollowedCamera {
    const key = keyOf(organisation, source)
    const known = this.#cameras.get(key) ?? this.#add(key, organisation, source, hosts)
    const { connection } = known
    const number = connection.follow(follower)
    return {
      get isDelivering() {
        return connection.isDelivering
      },
      get fault() {
        return connection.fault
      },
      get message() {
        return connection.message
      },
      want: () => connection.want(number),
      change: (changed) => connection.change(number, changed),
      newest: () => connection.newest(),
      record: (span) => connection.record(span),
      close: () => connection.leave(number),
    }
  }

  /** The state of a camera; null while the organisation does not follow it. */
  stateOf(
    organisation: string,
    source: CameraSource,
  ): Pick<FollowedCamera, 'isDelivering' | 'fault' | 'message'> | null {
    return this.#cameras.get(keyOf(organisation, source))?.connection ?? null
  }

  /** Whether each followed camera delivers. */
  get states(): readonly ('delivering' | 'offline')[] {
    return [...this.#cameras.values()].map(({ connection }) => (connection.isDelivering ? 'delivering' : 'offline'))
  }

  /** How long the first picture of a camera may take before the connection is retried. */
  get firstPictureMs(): number {
    return CONNECT_MS + FIRST_PICTURE * (this.#options.times?.silenceMs ?? TIMES.silenceMs)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    // Connections that wait for a process to start need not wait.
    for (const child of this.#children) if (!child.isReady) void child.end()
    await Promise.all([...this.#cameras.values()].map(({ connection }) => connection.close()))
    await Promise.all([...this.#children].map((child) => child.end()))
  }

  #add(key: string, organisation: string, source: CameraSource, hosts: CameraHosts | null): Known {
    const { resolve, times, meter = null, warn } = this.#options
    const connection = new CameraConnection({
      ...{ source, hosts, resolve, times: { ...TIMES, ...times }, meter, warn },
      process: () => this.#childFor(known),
      onUnused: () => {
        this.#cameras.delete(key)
        void connection.close().then(() => this.#endUnused())
      },
    })
    const known: Known = { organisation, connection, child: null, crashes: [] }
    this.#cameras.set(key, known)
    return known
  }

  /** A process with a place for the camera. */
  #childFor(known: Known): CameraChild {
    if (this.#isClosed) throw new Error('The cameras are closed')
    if (known.child !== null && !known.child.hasExited) return known.child
    const isSuspect = this.#isSuspect(known)
    const others = [...this.#cameras.values()].filter(({ organisation }) => organisation === known.organisation)
    const free = [...this.#children].find((child) => {
      const there = others.filter((one) => one.child === child)
      return !isSuspect && there.length > 0 && there.length < MOST_CAMERAS && !there.some((one) => this.#isSuspect(one))
    })
    known.child = free ?? this.#start()
    return known.child
  }

  #isSuspect({ crashes }: Known): boolean {
    return crashes.filter((at) => performance.now() - at < SUSPECT_MS).length >= SUSPECT_CRASHES
  }

  #start(): CameraChild {
    const child = new CameraChild({
      isConfined: this.#isConfined,
      program: this.#options.program ?? PROGRAM,
      onExit: () => this.#noteExit(child),
      onReceived: (received) => this.#options.meter?.cameraReceived(received),
    })
    this.#children.add(child)
    return child
  }

  #noteExit(child: CameraChild): void {
    this.#children.delete(child)
    if (child.isEnding) return
    this.#options.warn?.('A process for cameras has ended, and is replaced')
    for (const known of this.#cameras.values()) {
      if (known.child !== child) continue
      known.child = null
      known.crashes = [...known.crashes, performance.now()].slice(-SUSPECT_CRASHES)
    }
  }

  /** Ends processes without cameras. */
  #endUnused(): void {
    const used = new Set([...this.#cameras.values()].map(({ child }) => child))
    for (const child of this.#children) if (!used.has(child)) void child.end()
  }
}

/** Sources with the same settings are one camera. */
function keyOf(organisation: string, { type, url, username, password, certificate }: CameraSource): string {
  return hash('sha256', JSON.stringify([organisation, type, url, username, password, certificate]), 'base64')
}
