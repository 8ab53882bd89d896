import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Caller } from '../../../conversation/call.ts'

/** What of a request's media the model does not get. */
export const MEDIA_NOTES = 'x-lookout-note'
/** Which keywords of a request's schemas have no effect. */
export const IGNORED_KEYWORDS = 'x-lookout-ignored-keywords'

/** What clients of the model should know before they use its answer. */
export const WARNING = 'x-lookout-warning'

/** What the numbers of an answer depend on. */
export const FINGERPRINT = 'x-lookout-fingerprint'

/** Characters of names in a header. Some proxies refuse responses whose headers exceed 4 KiB. */
const MOST_CHARACTERS = 1_000

/**
 * Follows a request: shows its media in its trace; says in headers of the response and in the log what is left out of its
 * media, and which keywords of its schemas have no effect. What is found later than the headers are sent is only logged.
 */
export function notesOf(request: FastifyRequest, reply: FastifyReply): Required<Pick<Caller, 'trace' | 'onIgnored'>> {
  const notes = new Set<string>()
  const ignored = new Set<string>()
  const { logger } = request.server
  const show = (header: string, value: string) => {
    if (!reply.raw.headersSent) reply.header(header, value)
  }
  return {
    trace: {
      ...request.trace?.media,
      note(param, text) {
        logger.warn({ traceId: request.id, param }, text)
        notes.add(text)
        show(MEDIA_NOTES, [...notes].join('. '))
      },
    },
    onIgnored(keywords) {
      const known = ignored.size
      for (const keyword of keywords) ignored.add(keyword)
      if (ignored.size === known) return
      const names = inHeader(ignored)
      logger.info({ traceId: request.id, keywords: names }, 'Keywords of a JSON schema have no effect')
      show(IGNORED_KEYWORDS, names)
    },
  }
}

/** Warns of the model in a header of the response. The sentence is from a file. */
export function warnIn(reply: FastifyReply, warning: string): void {
  reply.header(WARNING, warning.replace(/[^ -~]/g, '?').slice(0, MOST_CHARACTERS))
}

/** The names with commas between them, as far as there is room. A header holds only ASCII, and clients split at commas. */
function inHeader(names: Iterable<string>): string {
  let text = ''
  for (const name of names) {
    const written = `${text === '' ? '' : ', '}${escaped(name)}`
    if (text.length + written.length > MOST_CHARACTERS) return `${text}${text === '' ? '' : ', '}...`
    text += written
  }
  return text
}

/** As in a JSON string; also commas, and blanks at the ends. A longer name than the header takes is not read to its end. */
function escaped(name: string): string {
  return name
    .slice(0, MOST_CHARACTERS + 1)
    .replace(/[^ -~]|[,\\]|^ | $|^$/g, (unit) => `\\u${(unit || '\0').charCodeAt(0).toString(16).padStart(4, '0')}`)
}
