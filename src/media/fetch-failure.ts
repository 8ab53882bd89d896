const REASONS: readonly (readonly [pattern: RegExp, reason: string])[] = [
  [/^(ENOTFOUND|EAI_AGAIN|ENODATA)$/, 'the host name is unknown'],
  [/^ECONNREFUSED$/, 'connection refused'],
  [/^(ECONNRESET|EPIPE|UND_ERR_SOCKET)$/, 'the server closed the connection'],
  [/^(ETIMEDOUT|UND_ERR_(CONNECT|HEADERS|BODY)_TIMEOUT)$/, 'the server does not answer'],
  [/^(EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL)$/, 'the server cannot be reached'],
  [
    /^(HTTPParserError|HPE_.*|UND_ERR_HEADERS_OVERFLOW|UND_ERR_RES_CONTENT_LENGTH_MISMATCH)$/,
    'the answer is not valid HTTP',
  ],
  [/CERT|^UNABLE_TO_/, 'the certificate of the server is not valid'],
  [/^(ERR_SSL_.*|EPROTO)$/, 'the server does not speak TLS'],
]

/** Whether this machine is to blame, which has no file descriptors or no memory left for a connection. */
export function isOwnFailure(error: unknown): boolean {
  return namesOf(error).some((name) => ['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM'].includes(name))
}

/** Why a connection failed, in words for whoever named its address. */
export function failureReason(error: unknown): string {
  const names = namesOf(error)
  for (const [pattern, reason] of REASONS) if (names.some((name) => pattern.test(name))) return reason
  const [code] = names.filter((name) => /^[A-Z][A-Z0-9_]+$/.test(name))
  return code === undefined ? 'the connection failed' : `the connection failed: ${code}`
}

/**
 * Codes and names of an error and what it was made of. Some of undici's have no code; where a host has several addresses,
 * each has an error of its own.
 */
function namesOf(error: unknown, depth = 0): string[] {
  if (!(error instanceof Error) || depth > 3) return []
  const own = ['code' in error && typeof error.code === 'string' ? error.code : '', error.name].filter(Boolean)
  const parts: unknown[] = error instanceof AggregateError ? error.errors : []
  return [...own, ...[...parts, error.cause].flatMap((part) => namesOf(part, depth + 1))]
}
