const CLOSED = /^(ECONNRESET|EPIPE|UND_ERR_SOCKET)$/
const REASONS: readonly (readonly [pattern: RegExp, reason: string])[] = [
  [/^(ENOTFOUND|EAI_AGAIN|ENODATA)$/, 'the host name is unknown'],
  [/^ECONNREFUSED$/, 'connection refused'],
  [CLOSED, 'the server closed the connection'],
  [/^(ETIMEDOUT|UND_ERR_(CONNECT|HEADERS|BODY)_TIMEOUT)$/, 'the server did not respond'],
  [/^(EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL)$/, 'the server is unreachable'],
  [
    /^(HTTPParserError|HPE_.*|UND_ERR_HEADERS_OVERFLOW|UND_ERR_RES_CONTENT_LENGTH_MISMATCH)$/,
    'the response is not valid HTTP',
  ],
  [/CERT|^UNABLE_TO_/, "the server's certificate is not valid"],
  [/^(ERR_SSL_.*|EPROTO)$/, 'the server does not speak TLS'],
]

/**
 * The shortage on this machine, if it caused the failure: of file descriptors or of memory. It is for the log, which
 * must not contain a host that a client named.
 */
export function ownFailureOf(error: unknown): Error | null {
  const code = namesOf(error).find((name) => ['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM'].includes(name))
  return code === undefined ? null : Object.assign(new Error('no connection can be opened'), { code })
}

/** A certificate from an authority that this machine does not know, or whose server omits intermediate certificates. */
const UNTRUSTED =
  /^(DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_(GET_ISSUER_CERT\w*|VERIFY_LEAF_SIGNATURE))$/

/** Advice for the user of this machine. */
export const ADVICE_OF_TRUST =
  'to trust an authority of your own, name the file of its certificate in NODE_EXTRA_CA_CERTS'

export function isUntrusted(error: unknown): boolean {
  return namesOf(error).some((name) => UNTRUSTED.test(name))
}

/**
 * Sends an idempotent request, and repeats it if the connection is closed before a response: a server may close an idle
 * connection just as a request is sent.
 */
export async function askTwice<Answer>(ask: () => Promise<Answer>, signal: AbortSignal): Promise<Answer> {
  return ask().catch((error) => {
    if (signal.aborted || !namesOf(error).some((name) => CLOSED.test(name))) throw error
    return ask()
  })
}

/** Why a connection failed, in words for the client that sent the URL. */
export function failureReason(error: unknown): string {
  const names = namesOf(error)
  for (const [pattern, reason] of REASONS) if (names.some((name) => pattern.test(name))) return reason
  const [code] = names.filter((name) => /^[A-Z][A-Z0-9_]+$/.test(name))
  return code === undefined ? 'the connection failed' : `the connection failed: ${code}`
}

/**
 * The codes and names of an error and of its causes. Some of undici's errors have only a name. A host with several
 * addresses has an error for each.
 */
function namesOf(error: unknown, depth = 0): string[] {
  if (!(error instanceof Error) || depth > 3) return []
  const own = ['code' in error && typeof error.code === 'string' ? error.code : '', error.name].filter(Boolean)
  const parts: unknown[] = error instanceof AggregateError ? error.errors : []
  return [...own, ...[...parts, error.cause].flatMap((part) => namesOf(part, depth + 1))]
}
