import { HubError } from '../hub-error.ts'
import type { HttpAnswer, HttpClient } from './http-client.ts'

interface Asked {
  /** The file; null for a repository as a whole. */
  readonly what: string | null
  /** `user/repo`, or an address. */
  readonly origin: string
  /** The requested address: redirects lose its credentials. */
  readonly asked: URL
  readonly http: Pick<HttpClient, 'endpoint' | 'hasToken'>
}

/** Turns an unsuccessful answer into an error for the user. */
export function statusError(answer: HttpAnswer, { what, origin, asked, http }: Asked): HubError {
  const { status, url } = answer
  const code = answer.header('x-error-code')
  const page = new URL(origin.includes('://') ? origin : `${http.endpoint.href}${origin}`)
  const shown = what === null ? origin : `${what} of ${origin}`
  // The token goes to the hub alone.
  if (page.origin !== http.endpoint.origin && [401, 403, 404].includes(status)) return elsewhere(answer, shown, asked)
  if (status === 404 || code === 'RepoNotFound' || code === 'EntryNotFound' || code === 'RevisionNotFound') {
    const secret = http.hasToken ? '' : '; if it is private, set HF_TOKEN'
    return new HubError(`${url.host} has no ${shown} (${status}): check the name${secret}`)
  }
  if (status === 401 || status === 403) {
    const token = http.hasToken
      ? 'the token in HF_TOKEN (or in the file token of HF_HOME) does not give access to it'
      : 'set HF_TOKEN to a token that may read it'
    return new HubError(
      `${shown} is gated or private (${status}): accept its terms at ${page.origin}${page.pathname}, and ${token}`,
    )
  }
  return new HubError(`${url.host} answered ${status} for ${shown}: try again later`)
}

function elsewhere({ status, url }: HttpAnswer, shown: string, asked: URL): HubError {
  if (status === 404) return new HubError(`${url.host} has no ${shown} (404): check the address`)
  const advice =
    asked.username === '' && asked.password === ''
      ? 'give a user and a password in the address, as in https://user:password@host/file.gguf'
      : 'check the user and the password in the address'
  return new HubError(`${url.host} denied access to ${shown} (${status}): ${advice}`)
}
