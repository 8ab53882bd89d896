import { createHash, randomBytes } from 'node:crypto'
import { CameraError } from '../camera-session.ts'

/** A nonce may expire while a request is under way, but not every time. */
const MAX_TRIES = 3
const MAX_CHALLENGE = 4096

interface Challenge {
  readonly scheme: string
  readonly params: ReadonlyMap<string, string>
}

/**
 * Logs in to a camera, by Digest or Basic (RFC 7616, 2617, 2069 and 7617). It sends no credentials before a challenge.
 * If it is kept for the next connection, it reuses its nonce.
 */
export class Login {
  readonly #username: string | null
  readonly #password: string
  #challenge: Challenge | null = null
  #count = 0
  /** Whether a request since the last challenge was accepted. */
  #isAccepted = false
  #tries = 0

  constructor(username: string | undefined, password: string | undefined) {
    this.#username = username ?? null
    this.#password = password ?? ''
  }

  /**
   * Takes the headers `WWW-Authenticate` of a 401.
   * @throws CameraError when it makes no sense to ask again
   */
  challenged(headers: readonly string[]): void {
    if (this.#username === null) throw unauthorized('The camera asks for a user name and a password')
    const challenges = headers.flatMap(parseChallenges)
    const digests = challenges.filter(({ scheme }) => scheme === 'digest')
    const chosen = digests.find(isSupported) ?? challenges.find(({ scheme }) => scheme === 'basic')
    // A password that is asked for by Digest is never sent in the clear.
    if (chosen === undefined || (chosen.scheme === 'basic' && digests.length > 0)) {
      throw unauthorized('The camera asks for a login that Lookout does not know')
    }
    const isStale = chosen.params.get('stale')?.toLowerCase() === 'true'
    const wasWrong = this.#count > 0 && !this.#isAccepted && !isStale
    if (wasWrong || ++this.#tries > MAX_TRIES) throw unauthorized('The camera refuses the user name or the password')
    this.#challenge = chosen
    this.#count = 0
    this.#isAccepted = false
  }

  /** After any answer but 401. */
  accepted(): void {
    if (this.#count === 0) return
    this.#isAccepted = true
    this.#tries = 0
  }

  /** The header `Authorization`, or null before the first challenge. */
  authorization(method: string, uri: string, cnonce = randomBytes(12).toString('hex')): string | null {
    if (this.#challenge === null) return null
    this.#count++
    const { scheme, params } = this.#challenge
    const [username, password] = [this.#username!, this.#password]
    if (scheme === 'basic') return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
    const [realm, nonce, algorithm] = [params.get('realm') ?? '', params.get('nonce') ?? '', params.get('algorithm')]
    const name = hashOf(algorithm)!
    const hash = (...parts: string[]) => createHash(name).update(parts.join(':')).digest('hex')
    const count = this.#count.toString(16).padStart(8, '0')
    let secret = hash(username, realm, password)
    if (algorithm?.toLowerCase().endsWith('-sess')) secret = hash(secret, nonce, cnonce)
    const request = hash(method, uri)
    // RFC 2069 has no `qop`.
    const qop = params.has('qop')
    const response = qop ? hash(secret, nonce, count, cnonce, 'auth', request) : hash(secret, nonce, request)
    const opaque = params.get('opaque')
    return `Digest ${[
      ...Object.entries({ username, realm, nonce, uri, response }).map(([key, value]) => `${key}=${quoted(value)}`),
      ...(algorithm === undefined ? [] : [`algorithm=${algorithm}`]),
      ...(opaque === undefined ? [] : [`opaque=${quoted(opaque)}`]),
      ...(qop || secretUsesCnonce(algorithm) ? [`cnonce="${cnonce}"`] : []),
      ...(qop ? ['qop=auth', `nc=${count}`] : []),
    ].join(', ')}`
  }
}

function unauthorized(message: string): CameraError {
  return new CameraError('unauthorized', message)
}

/** Line breaks would begin another header. */
function quoted(text: string): string {
  return `"${text.replaceAll(/\p{Cc}/gu, '').replaceAll(/["\\]/g, '\\$&')}"`
}

function secretUsesCnonce(algorithm: string | undefined): boolean {
  return algorithm?.toLowerCase().endsWith('-sess') === true
}

function hashOf(algorithm = 'md5'): string | null {
  const name = algorithm.toLowerCase().replace(/-sess$/, '')
  return name === 'md5' || name === 'sha-256' ? name.replace('-', '') : null
}

function isSupported({ params }: Challenge): boolean {
  const qop = params.get('qop')
  return hashOf(params.get('algorithm')) !== null && (qop === undefined || /(?:^|[\s,])auth(?:$|[\s,])/i.test(qop))
}

/** One header may hold several challenges. */
function parseChallenges(header: string): Challenge[] {
  const challenges: { scheme: string; params: Map<string, string> }[] = []
  const words = header.slice(0, MAX_CHALLENGE).matchAll(/([\w-]+)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,]*)))?/g)
  for (const [, word, inQuotes, bare] of words) {
    const value = inQuotes?.replaceAll(/\\(.)/g, '$1') ?? bare
    if (value === undefined) challenges.push({ scheme: word!.toLowerCase(), params: new Map() })
    else challenges.at(-1)?.params.set(word!.toLowerCase(), value)
  }
  return challenges
}
