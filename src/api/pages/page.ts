import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { notFound } from '../http/error-handler.ts'
import { addEndpoint } from '../http/routes.ts'
import type { Encoding, PageFile, PageFiles } from './page-files.ts'

/**
 * A page may only run its own code and call this server. Pictures that the user drops are blobs. So no text of a model can
 * send the page's key to another server.
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
}
const YEAR_S = 31_536_000

export interface PageOptions {
  /** URL of the page itself. */
  readonly url: string
  /** URL pattern of the page's files, below `url`. */
  readonly filesUrl: string
  readonly files: () => Promise<PageFiles>
  /** The browser features that the page may use, as the header `permissions-policy`. */
  readonly permissions: string
}

/** `GET` of a page and of its files. They need no key, but the page's calls do. */
export function addPage(app: FastifyInstance, { url, filesUrl, files, permissions }: PageOptions): void {
  const headers = { ...PAGE_HEADERS, 'permissions-policy': permissions }
  const send = async (name: string, request: FastifyRequest, reply: FastifyReply) => {
    const all = await files()
    const file = all.get(name)
    if (file !== undefined) return sendFile(file, request, reply.headers(headers))
    const index = `${name}/index.html`
    return all.has(index) ? reply.redirect(`${url}/${index}`) : notFound(request)
  }
  addEndpoint(app, { url, handlers: { GET: (request, reply) => send('index.html', request, reply) } })
  addEndpoint(app, {
    url: filesUrl,
    handlers: { GET: (request, reply) => send((request.params as { '*': string })['*'], request, reply) },
  })
}

function sendFile(file: PageFile, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const encoding = chooseEncoding(file, request.headers['accept-encoding'])
  reply
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
