import type { FastifyReply, FastifyRequest } from 'fastify'
import type { MediaTrace } from '../../media/index.ts'

/** What of a request's media the model does not get. */
export const MEDIA_NOTES = 'x-lookout-note'

/** Shows the media of a request in its trace, and what is left out of it in a header of the response and in the log. */
export function followMedia(request: FastifyRequest, reply: FastifyReply): MediaTrace {
  const notes = new Set<string>()
  return {
    ...request.trace?.media,
    note(param, text) {
      request.server.logger.warn({ traceId: request.id, param }, text)
      notes.add(text)
      // The media of later parts of a reply, such as a closer look at a picture, may come when the headers are gone.
      if (!reply.raw.headersSent) reply.header(MEDIA_NOTES, [...notes].join('. '))
    },
  }
}
