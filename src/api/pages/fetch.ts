import type { Readable } from 'node:stream'
import { finished } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { MediaLoader } from '../../media/media-loader.ts'
import type { BodyReader } from '../http/body/body-reader.ts'
import { callOf } from '../http/client-call.ts'
import { requestSignal } from '../http/connection/abort-signal.ts'
import { addEndpoint } from '../http/routes.ts'
import { fetchBody } from './fetch-body.ts'

export interface StudioFetchOptions {
  readonly bodies: BodyReader
  readonly media: Pick<MediaLoader, 'fetch'>
  /** Fires when active requests must be aborted. */
  readonly shutdown: AbortSignal
}

/**
 * `POST /studio/fetch` with `{"url": ...}`: returns the bytes of media at a URL. The page may call only this server, which
 * fetches the media as for a request that names the URL.
 */
export function addStudioFetch(app: FastifyInstance, options: StudioFetchOptions): void {
  addEndpoint(app, {
    url: '/studio/fetch',
    scope: 'inference',
    bucket: 'media_fetch',
    handlers: { POST: (request, reply) => fetchMedia(request, reply, options) },
  })
}

async function fetchMedia(
  request: FastifyRequest,
  reply: FastifyReply,
  { bodies, media, shutdown }: StudioFetchOptions,
): Promise<Readable> {
  const call = callOf(request, reply)
  const { value: body } = await bodies.read(call, fetchBody)
  const signal = requestSignal(call.closed, shutdown)
  const found = await media.fetch(body.url, { organisation: call.principal.organisation, param: 'url', signal })
  const bytes = found.read()
  finished(bytes, () => found[Symbol.dispose]())
  reply
    .type(found.type)
    .header('content-length', found.byteLength)
    .header('cache-control', 'no-store')
    // A browser must not open a third party's bytes as a page of this server.
    .header('content-disposition', 'attachment')
    .header('content-security-policy', "default-src 'none'; sandbox")
  return bytes
}
