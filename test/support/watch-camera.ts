import { connect } from 'node:net'
import { loadFFmpeg } from '../../src/media/decoding/ffmpeg.ts'
import {
  type AccessUnit,
  CameraError,
  type CameraSession,
  type SessionHooks,
} from '../../src/media/live/process/camera-session.ts'
import { Login } from '../../src/media/live/process/digest.ts'
import { type CameraAddress, openSession } from '../../src/media/live/process/open-session.ts'

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

/** Opens a session over a real socket, and again when it asks for that. */
export async function watchCamera(url: string, viewing: Viewing = {}): Promise<SeenCamera> {
  const units: AccessUnit[] = []
  const login = viewing.login ?? new Login(undefined, undefined)
  for (;;) {
    const error = await viewOnce(new URL(url), { ...viewing, login }, units)
    if (error?.reason !== 'again' || units.length === viewing.count) return { units, error }
  }
}

function viewOnce(address: URL, viewing: Viewing, units: AccessUnit[]): Promise<CameraError | null> {
  const { type = 'rtsp', login, count = Number.POSITIVE_INFINITY } = viewing
  let timer: NodeJS.Timeout | undefined
  let dispose = () => {}
  const socket = connect(Number(address.port), address.hostname)
  return new Promise<CameraError | null>((resolve, reject) => {
    /** Runs a step of the session, and says how it ended. */
    const step = (run: () => void) => {
      try {
        run()
      } catch (error) {
        if (error instanceof CameraError) resolve(error)
        else reject(error)
      }
    }
    socket.on('error', reject)
    socket.on('connect', () => {
      const hooks: SessionHooks = {
        send: (bytes) => socket.write(bytes),
        onPlaying: () => viewing.onPlaying?.(session),
        onError: (error) =>
          step(() => {
            throw error
          }),
        onUnit(unit) {
          if (units.length === count) return
          units.push(unit)
          viewing.onUnit?.(unit, session)
          if (units.length < count) return
          session.close()
          resolve(null)
        },
      }
      const session: CameraSession = openSession({ type, url: address }, login!, hooks, ffmpeg)
      dispose = () => session[Symbol.dispose]?.()
      socket.on('data', (bytes) => step(() => session.feed(bytes)))
      socket.on('end', () => step(() => session.end()))
      if (type === 'jpeg' || type === 'hls') timer = setInterval(() => step(() => session.tick(Date.now())), 5)
    })
  }).finally(() => {
    clearInterval(timer)
    dispose()
    socket.destroy()
  })
}
