import { connect, type Socket } from 'node:net'
import { loadFFmpeg } from '../../src/media/decoding/ffmpeg.ts'
import {
  type AccessUnit,
  CameraError,
  type CameraSession,
  type SessionHooks,
} from '../../src/media/live/process/camera-session.ts'
import { openWire } from '../../src/media/live/process/camera-wire.ts'
import { Login } from '../../src/media/live/process/protocols/digest.ts'
import { type CameraAddress, openSession } from '../../src/media/live/process/protocols/open-session.ts'

const ffmpeg = loadFFmpeg()

export interface SeenCamera {
  readonly units: readonly AccessUnit[]
  /** How it ended; null when there were enough units. */
  readonly error: CameraError | null
}

interface Viewing {
  readonly type?: CameraAddress['type']
  readonly login?: Login
  /** After this many, the session is closed. */
  readonly count?: number
  readonly onUnit?: (unit: AccessUnit, session: CameraSession) => void
  /** Called with the session once the camera plays. */
  readonly onPlaying?: (session: CameraSession) => void
}

/** Opens a session over a real socket, with TLS where the address says so, and over others when it asks for them. */
export async function watchCamera(url: string, viewing: Viewing = {}): Promise<SeenCamera> {
  const { type = 'rtsp', login = new Login(undefined, undefined), count = Number.POSITIVE_INFINITY } = viewing
  const address = new URL(url)
  const units: AccessUnit[] = []
  const ended = Promise.withResolvers<CameraError | null>()
  let session: CameraSession | null = null
  let wire: Socket | null = null
  /** Runs a step of the session, and says how it ended. */
  const step = (run: () => void) => {
    try {
      run()
    } catch (error) {
      if (!(error instanceof CameraError)) ended.reject(error)
      else if (error.reason === 'again') open()
      else ended.resolve(error)
    }
  }
  const hooks: SessionHooks = {
    send: (bytes) => wire!.write(bytes),
    onPlaying: () => viewing.onPlaying?.(session!),
    onError: (error) =>
      step(() => {
        throw error
      }),
    onUnit(unit) {
      if (units.length === count) return
      units.push(unit)
      viewing.onUnit?.(unit, session!)
      if (units.length < count) return
      session!.close()
      ended.resolve(null)
    },
  }
  const begin = () => {
    if (session === null) session = openSession({ type, url: address }, login, hooks, ffmpeg)
    else session.reopen!()
  }
  const open = () => {
    wire?.destroy()
    const socket = connect(Number(address.port), address.hostname)
    wire = socket
    socket.once('error', (error) => ended.reject(error))
    socket.once('connect', () => {
      const source = { type, url, username: null, password: null, certificate: 'any' }
      const opened = openWire(socket, source, {
        onReady: () => step(begin),
        onBytes: (bytes) => step(() => session!.feed(bytes)),
        onEnd: () => step(() => session!.end()),
        onClose: () => {
          if (wire === opened && session?.isIdle === true) step(() => session!.end())
        },
      })
      wire = opened
    })
  }
  open()
  const isAsked = type === 'jpeg' || type === 'hls'
  const timer = setInterval(() => isAsked && step(() => session?.tick(Date.now())), 5)
  try {
    const error = await ended.promise
    return { units, error }
  } finally {
    clearInterval(timer)
    const last = session as CameraSession | null
    last?.[Symbol.dispose]?.()
    wire!.destroy()
  }
}
