import type { ErrorBody } from './wire.ts'

/**
 * `gone`: the server does not have the model that the request names, or no longer. `unanswered`: the connection broke
 * before an answer came, although the server is there. `lost`: the server no longer has a file that was uploaded to it.
 */
export type FailureKind =
  | 'offline'
  | 'unanswered'
  | 'key'
  | 'busy'
  | 'gone'
  | 'lost'
  | 'request'
  | 'server'
  | 'broken-off'

/** An attachment of a request, as far as it matters here. */
export interface MediaAtFault {
  readonly id: string
  readonly name: string
}

/** Why a request has no result. `message` is a sentence for the person at the page. */
export class Failure extends Error {
  override readonly name = 'Failure'
  readonly kind: FailureKind
  /** 0 where no response arrived. */
  readonly status: number
  /** The field of the request at fault, as the server names it. */
  readonly param: string | null
  readonly code: string | null
  /** Seconds after which the server wants to be asked again; null when it did not say. */
  readonly retryAfter: number | null
  /** The medium that is at fault; the message names it. */
  readonly media: MediaAtFault | null

  constructor(kind: FailureKind, message: string, details: FailureDetails = {}) {
    super(message)
    this.kind = kind
    this.status = details.status ?? 0
    this.param = details.param ?? null
    this.code = details.code ?? null
    this.retryAfter = details.retryAfter ?? null
    this.media = details.media ?? null
  }

  /** The same, with the name of a file in place of the field that held it. */
  about(media: MediaAtFault): Failure {
    const what = this.message
      .replace(`Invalid '${this.param}': `, '')
      .replace(/^[A-Z](?=[a-z ])/, (first) => first.toLowerCase())
    return new Failure(this.kind, `${media.name}: ${what}`, { ...this, param: null, media })
  }
}

interface FailureDetails {
  readonly status?: number
  readonly param?: string | null
  readonly code?: string | null
  readonly retryAfter?: number | null
  readonly media?: MediaAtFault | null
}

/** The failure that a response of the server describes. */
export async function failureOf(response: Response): Promise<Failure> {
  const { status } = response
  const body = (await response.json().catch(() => null)) as { error?: ErrorBody } | null
  const seconds = Number(response.headers.get('retry-after') ?? Number.NaN)
  const details = {
    status,
    param: body?.error?.param ?? null,
    code: body?.error?.code ?? null,
    retryAfter: Number.isFinite(seconds) ? seconds : null,
  }
  const message = body?.error?.message ?? `The server answered with status ${status}`
  if (status === 401)
    return new Failure('key', 'The server does not accept this key. It may have been revoked.', details)
  if (details.retryAfter !== null && (status === 429 || status === 503)) return new Failure('busy', message, details)
  if (isGone(status, message, details.code))
    return new Failure('gone', `${message}. It may have been deleted.`, details)
  if (status === 400 && /^(Invalid '.*': )?No such File object: /s.test(message))
    return new Failure('lost', message, details)
  return new Failure(status >= 500 ? 'server' : 'request', message, details)
}

/** Only endpoints about models have a code for it. */
function isGone(status: number, message: string, code: string | null): boolean {
  return code === 'model_not_found' || (status === 400 && /^Model '.+' does not exist$/s.test(message))
}

/** A failure that the server reports in the middle of a stream. */
export function failureInStream(error: ErrorBody): Failure {
  return new Failure('server', error.message, { status: 500, param: error.param, code: error.code })
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError'
}

/** Anything thrown, as a failure. */
export function toFailure(error: unknown): Failure {
  if (error instanceof Failure) return error
  return new Failure('request', error instanceof Error ? error.message : String(error))
}
