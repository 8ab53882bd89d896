import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { OPEN_PATHS } from '../http/auth.ts'
import { notFound } from '../http/error-handler.ts'
import { addEndpoint } from '../http/routes.ts'
import type { Encoding, PageFile } from './page-files.ts'

/**
 * What the page may do: run its own code and call this server, and nothing else. Pictures that the user drops are blobs.
 * The page's key can therefore leave for no other server, whatever a model writes.
 */
const PAGE_HEADERS = {
  'content-security-policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "img-src 'self' blob: data:",
    "media-src 'self' blob: data:",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; '),
  'cross-origin-opener-policy': 'same-origin',
  'permissions-policy': 'camera=(self), microphone=(), geolocation=()',
}
const YEAR_S = 31_536_000

/** `GET /studio` and the files below it: the page that people open. It needs no key; what it calls does. */
export function addStudio(app: FastifyInstance, files: ReadonlyMap<string, PageFile>): void {
  addEndpoint(app, {
    url: OPEN_PATHS.studio,
    handlers: { GET: (request, reply) => sendFile(files.get('index.html')!, request, reply) },
  })
  addEndpoint(app, {
    url: OPEN_PATHS.studioFiles,
    handlers: {
      GET: (request, reply) => {
        const file = files.get((request.params as { '*': string })['*'])
        return file === undefined ? notFound(request) : sendFile(file, request, reply)
      },
    },
  })
}

function sendFile(file: PageFile, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const encoding = chooseEncoding(file, request.headers['accept-encoding'])
  reply
    .headers(PAGE_HEADERS)
    .header('content-type', file.type)
    .header('vary', 'Accept-Encoding')
    .header('cache-control', file.immutable ? `public, max-age=${YEAR_S}, immutable` : 'no-cache')
  if (encoding !== 'identity') reply.header('content-encoding', encoding)
  return reply.send(file.encodings.get(encoding))
}

function chooseEncoding({ encodings }: PageFile, accepted = ''): Encoding {
  const names = accepted.split(',').map((part) => part.trim())
  const isAccepted = (name: string) =>
    names.some((part) => part.split(';')[0] === name && !/;\s*q=0(\.0*)?$/.test(part))
  return (['br', 'gzip'] as const).find((name) => encodings.has(name) && isAccepted(name)) ?? 'identity'
}
