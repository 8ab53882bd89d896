import { createHash, randomBytes } from 'node:crypto'

/** What a camera asks for before it answers. */
export interface CameraLogin {
  readonly scheme: 'basic' | 'digest'
  readonly algorithm?: 'MD5' | 'SHA-256' | 'MD5-sess'
  username: string
  password: string
  /** Requests for which a nonce is good. */
  nonceUses?: number
  /** Whether the camera says that only the nonce was wrong. */
  saysStale?: boolean
}

/** The camera's side of a login. */
export class LoginCheck {
  /** What each request was refused or accepted for. */
  readonly #nonces = new Map<string, number>()

  /** @returns null for a request that may pass, or the value of `WWW-Authenticate`. */
  challenge(login: CameraLogin | null, method: string, authorization: string | undefined): string | null {
    if (login === null) return null
    const { scheme, algorithm = 'MD5', username, password, nonceUses = 1000, saysStale = true } = login
    if (scheme === 'basic') {
      const wanted = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
      return authorization === wanted ? null : 'Basic realm="camera"'
    }
    const params = Object.fromEntries(
      [...(authorization ?? '').matchAll(/(\w+)=(?:"((?:[^"\\]|\\.)*)"|([^,\s]+))/g)].map(([, key, quoted, bare]) => [
        key!,
        quoted?.replaceAll(/\\(.)/g, '$1') ?? bare!,
      ]),
    )
    const { nonce = '', nc = '', cnonce = '', uri = '', response } = params
    const hash = (...parts: string[]) =>
      createHash(algorithm === 'SHA-256' ? 'sha256' : 'md5')
        .update(parts.join(':'))
        .digest('hex')
    const user = hash(username, 'camera', password)
    const secret = algorithm === 'MD5-sess' ? hash(user, nonce, cnonce) : user
    const isRight = response === hash(secret, nonce, nc, cnonce, 'auth', hash(method, uri))
    const used = this.#nonces.get(nonce)
    if (isRight && used !== undefined && used < nonceUses && Number.parseInt(nc, 16) === used + 1) {
      this.#nonces.set(nonce, used + 1)
      return null
    }
    const fresh = randomBytes(8).toString('hex')
    this.#nonces.set(fresh, 0)
    const stale = isRight && saysStale ? ', stale=true' : ''
    return `Digest realm="camera", nonce="${fresh}", algorithm=${algorithm}, qop="auth,auth-int"${stale}`
  }
}
