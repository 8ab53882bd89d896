import type { Principal } from '../accounts/principal.ts'
import { type ApiError, invalidRequest } from '../lib/errors/errors.ts'
import type { HostResolver } from '../lib/public-address.ts'
import type { SecretBox } from '../lib/secrets/secret-box.ts'
import { isFFmpegInstalled } from '../media/decoding/ffmpeg-package.ts'
import { isForbidden } from '../media/live/camera-dial.ts'
import { CameraHosts } from '../media/live/camera-hosts.ts'
import type { CameraPool } from '../media/live/camera-pool.ts'
import {
  type CameraFault,
  type CameraLoss,
  type CameraSource,
  type CameraType,
  faultOfUrl,
  placeOf,
} from '../media/live/camera-source.ts'
import type { FollowCamera } from './camera-feed.ts'
import type { CameraRecord } from './watch-settings.ts'

/** A camera of the server's configuration. */
export interface ConfiguredCamera extends CameraSource {
  readonly name: string
  /** Organisations whose watches may use it; null for all. */
  readonly organisations: readonly string[] | null
}

export interface CamerasOptions {
  readonly pool: Pick<CameraPool, 'follow' | 'stateOf' | 'firstPictureMs'>
  readonly configured: readonly ConfiguredCamera[]
  /** Hosts and networks of the cameras that clients may describe. */
  readonly hosts: readonly string[]
  /** Encrypts the passwords of such cameras. Without a secret of its own, the server stores none. */
  readonly secrets: SecretBox
  readonly resolve?: HostResolver | undefined
  /** How long a client waits for the first frame of a camera that is already failing. */
  readonly probeMs?: number | undefined
}

/** A camera as a client describes it. */
export type GivenCamera =
  | { readonly type: 'camera'; readonly camera: string }
  | {
      readonly type: CameraType
      readonly url: string
      readonly username?: string | undefined
      readonly password?: string | undefined
      readonly certificate?: string | undefined
    }

/** A camera, as clients see it. */
type ShownCamera = Pick<GivenCamera, 'type'> & {
  readonly camera?: string
  readonly url?: string
  readonly certificate?: string
}

/** What clients see of a configured camera, without its address. */
export interface CameraReport {
  readonly name: string
  /** Null while no watch of the organisation uses it. */
  readonly isDelivering: boolean | null
  readonly fault: CameraFault | null
  /** Details of the fault. */
  readonly message: string | null
}

const PROBE_MS = 10_000

/** The cameras that watches may use: those of the configuration, and those that clients describe. */
export class Cameras {
  readonly #options: CamerasOptions
  readonly #hosts: CameraHosts

  constructor(options: CamerasOptions) {
    this.#options = options
    this.#hosts = new CameraHosts(options.hosts)
  }

  /** The configured cameras that an organisation may use. */
  list(organisation: string): CameraReport[] {
    return this.#options.configured.filter(isOf(organisation)).map((camera) => {
      const {
        isDelivering = null,
        fault = null,
        message = null,
      } = this.#options.pool.stateOf(organisation, camera) ?? {}
      return { name: camera.name, isDelivering, fault, message }
    })
  }

  /**
   * Checks a camera, and returns the record to store.
   * @throws ApiError 400 naming the part of `source` that is invalid.
   */
  async record(organisation: string, given: GivenCamera): Promise<CameraRecord> {
    if (!isFFmpegInstalled()) {
      throw invalidRequest('This server has no cameras: it was installed without FFmpeg', ['source', 'type'])
    }
    if (given.type === 'camera') {
      const { camera: name } = given
      if (this.#configured(organisation, name) === null) {
        throw invalidRequest(`There is no camera '${name.slice(0, 64)}' in the server’s configuration`, [
          'source',
          'camera',
        ])
      }
      return { type: 'camera', camera: name }
    }
    const { type, url, username, password, certificate } = given
    const fault = faultOfUrl(type, url)
    if (fault !== null) throw invalidRequest(`Invalid 'source.url': ${fault}`, ['source', 'url'])
    if (certificate !== undefined && !placeOf(given).isSecure) {
      throw invalidRequest("Invalid 'source.certificate': 'source.url' has no TLS", ['source', 'certificate'])
    }
    await this.#checkPlace(given)
    const record = { type, url, ...(certificate && { certificate }) }
    const { secrets } = this.#options
    const hasLogin = username !== undefined || password !== undefined
    const hidden = hiddenUrl(url)
    if (!hasLogin && (!secrets.isLocked || hidden === url)) return { ...record, credentials: null }
    if (!secrets.isLocked) {
      const needed = 'this server stores no passwords of cameras: its setting LOOKOUT_SECRET is empty'
      throw invalidRequest(`Invalid 'source.password': ${needed}`, ['source', 'password'])
    }
    const login = JSON.stringify([username ?? null, password ?? null, url])
    return { ...record, url: hidden, credentials: secrets.seal(login, contextOf(organisation, hidden)) }
  }

  /**
   * A camera, as a client sees it: without its login, and with its full address only for keys that may describe
   * cameras.
   */
  shown(organisation: string, record: CameraRecord, { scopes }: Pick<Principal, 'scopes'>): ShownCamera {
    if (record.type === 'camera') return record
    const { type, url, certificate } = record
    const source = scopes.has('admin') ? this.#sourceOf(organisation, record) : null
    const known = source === null || 'fault' in source ? hiddenUrl(url) : source.url
    return { type, url: known, ...(certificate && { certificate }) }
  }

  async #checkPlace(source: Pick<CameraSource, 'type' | 'url'>): Promise<void> {
    const { host, port } = placeOf(source)
    const allowed = this.#hosts.allows(host, port)
    const { resolve } = this.#options
    const isAllowed = allowed === 'addresses' ? !(await isForbidden(host, { hosts: this.#hosts, resolve })) : allowed
    if (isAllowed) return
    const { host: named } = new URL(source.url)
    throw invalidRequest(
      `Invalid 'source.url': the setting LOOKOUT_CAMERA_HOSTS of the server does not name ${named}, nor a network that has all of its addresses`,
      ['source', 'url'],
      { code: 'camera_not_allowed' },
    )
  }

  /** Follows the camera of a watch. */
  readonly follow: FollowCamera = (organisation, record, follower) => {
    const source = this.#sourceOf(organisation, record)
    if ('fault' in source) return source
    const hosts = record.type === 'camera' ? null : this.#hosts
    return this.#options.pool.follow(organisation, source, hosts, follower)
  }

  /**
   * A camera with its login; or why it cannot be used, if the configuration or the secret has changed since the check.
   */
  #sourceOf(organisation: string, record: CameraRecord): CameraSource | CameraLoss {
    if (record.type === 'camera') return this.#configured(organisation, record.camera) ?? UNNAMED
    const { type, url, credentials, certificate = 'verify' } = record
    if (credentials === null) return { type, url, username: null, password: null, certificate }
    const login = this.#options.secrets.open(credentials, contextOf(organisation, url))
    if (login === null) return SEALED
    // Earlier versions did not encrypt the address.
    const [username, password, whole = url] = JSON.parse(login) as [string | null, string | null, string?]
    return { type, url: whole, username, password, certificate }
  }

  #configured(organisation: string, name: string): ConfiguredCamera | null {
    return this.#options.configured.filter(isOf(organisation)).find((camera) => camera.name === name) ?? null
  }

  /**
   * Waits for the first frame of a camera.
   * @param keepMs how long its video is kept, for clips of the watch that is created next.
   * @returns a function that ends the probe; until then the connection stays open.
   * @throws ApiError 400 `camera_unreachable`
   */
  async probe(organisation: string, record: CameraRecord, keepMs: number, signal: AbortSignal): Promise<() => void> {
    const settled = Promise.withResolvers<CameraFault | null>()
    const pace = { everyMs: PROBE_MS, decode: 'auto', keepMs } as const
    const camera = this.follow(organisation, record, {
      pace,
      onFrame: ({ frame }) => {
        frame[Symbol.dispose]()
        settled.resolve(null)
      },
      onState: () => {
        if (camera.fault !== null) settled.resolve(camera.fault)
      },
    })
    if (!('want' in camera)) throw unreachable(camera.fault, camera.message)
    camera.want()
    // As long as it has not failed, it may still send its first key frame.
    const { pool, probeMs = PROBE_MS } = this.#options
    const limitMs = camera.fault === null ? Math.max(probeMs, pool.firstPictureMs) : probeMs
    const timer = setTimeout(() => settled.resolve(camera.fault ?? 'no_video'), limitMs)
    const leave = () => settled.resolve('silent')
    signal.addEventListener('abort', leave, { once: true })
    const fault = await settled.promise
    clearTimeout(timer)
    signal.removeEventListener('abort', leave)
    if (fault === null) return () => camera.close()
    const message = camera.fault === null ? 'no key frame has come yet' : camera.message
    camera.close()
    throw unreachable(fault, message)
  }
}

const UNNAMED: CameraLoss = { fault: 'not_allowed', message: 'The server’s configuration no longer has this camera' }
const SEALED: CameraLoss = {
  fault: 'unauthorized',
  message: 'LOOKOUT_SECRET is not the one that this camera was stored with: describe the camera again',
}

/** An address without its path and query, which hold the login of many cameras. */
function hiddenUrl(url: string): string {
  const { protocol, host, pathname, search } = new URL(url)
  return /^\/?$/.test(pathname + search) ? url : `${protocol}//${host}/***`
}

/** Binds an encrypted login to its organisation and address: it cannot be decrypted for others. */
function contextOf(organisation: string, url: string): string {
  return JSON.stringify([organisation, url])
}

function isOf(organisation: string): (camera: ConfiguredCamera) => boolean {
  return ({ organisations }) => organisations?.includes(organisation) ?? true
}

function unreachable(fault: string, message: string | null): ApiError {
  const advice = "its certificate cannot be verified. 'source.certificate' may be its fingerprint, or any"
  const about = fault === 'untrusted' ? advice : message
  const reason = about === null ? fault : `${fault}: ${about}`
  return invalidRequest(`The camera delivers no frames: ${reason}`, ['source'], { code: 'camera_unreachable' })
}
