import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { InlineMedia } from '../../media/inline-media.ts'
import type { MediaLoader } from '../../media/media-loader.ts'
import { locate } from '../../media/media-source.ts'
import { encodePng } from '../../media/png.ts'
import { callOf } from '../http/client-call.ts'
import { requestSignal } from '../http/connection/abort-signal.ts'
import { toApiError } from '../http/error-handler.ts'
import { addEndpoint } from '../http/routes.ts'
import type { StudioFetchOptions } from './fetch.ts'
import { pagesBody } from './fetch-body.ts'

export interface DocumentPagesOptions extends Omit<StudioFetchOptions, 'media'> {
  readonly media: Pick<MediaLoader, 'open'>
}

/** The maximum of a request. */
const MOST_PAGES = 256
/** About 2.5 megapixels: an A4 page at 160 pixels per inch. */
const PAGE = { minTokens: 1, maxTokens: 2_500, pixelsPerToken: 32 }

/**
 * `POST /studio/pages` with `{"file_data": ...}`, a PDF in base64: returns its pages as PNG, because browsers cannot
 * draw PDFs without a library. The response has one line of JSON per page, with its base64.
 */
export function addDocumentPages(app: FastifyInstance, options: DocumentPagesOptions): void {
  addEndpoint(app, {
    url: '/studio/pages',
    scope: 'inference',
    bucket: 'media_fetch',
    handlers: { POST: (request, reply) => sendPages(request, reply, options) },
  })
}

async function sendPages(
  request: FastifyRequest,
  reply: FastifyReply,
  { bodies, media, shutdown }: DocumentPagesOptions,
): Promise<Readable> {
  const call = callOf(request, reply)
  const { value: body } = await bodies.read(call, pagesBody)
  const signal = requestSignal(call.closed, shutdown)
  const located = locate({ type: 'base64', data: body.file_data }, 'file_data')
  const inline = new InlineMedia(located.type === 'bytes' ? located.bytes : new Uint8Array())
  const input = { reference: { type: 'inline', media: inline }, param: 'file_data', signal } as const
  /** Page by page: together they would exceed the limit of a request. */
  const opened = () => media.open(call.principal.organisation, signal, { isTransient: true })
  const count = async () => {
    using document = opened()
    return (await document.document(input)).pages
  }
  const pages = await count()
  async function* lines() {
    try {
      for (let page = 1; page <= Math.min(pages, MOST_PAGES); page++) {
        using document = opened()
        const { image } = await document.page(input, page, PAGE)
        yield `${JSON.stringify({ pages, png: (await encodePng(image)).toString('base64') })}\n`
      }
    } catch (error) {
      yield `${JSON.stringify({ pages, error: toApiError(error).message })}\n`
    }
  }
  reply.type('application/x-ndjson').header('cache-control', 'no-store')
  return Readable.from(lines())
}
