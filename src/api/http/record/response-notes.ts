import type { Caller } from '../../../conversation/call/call.ts'
import type { ApiCall } from '../api-call.ts'

/** The header that says which of a request's media the model does not get. */
export const MEDIA_NOTES = 'x-lookout-note'
/** The header that lists the keywords of a request's schemas that have no effect. */
export const IGNORED_KEYWORDS = 'x-lookout-ignored-keywords'

/** The header that warns clients about the model's answers. */
export const WARNING = 'x-lookout-warning'

/** The header that identifies everything that an answer's numbers depend on. */
export const FINGERPRINT = 'x-lookout-fingerprint'

/** Maximum characters of names in a header. Some proxies reject responses whose headers exceed 4 KiB. */
const MOST_CHARACTERS = 1_000

/**
 * Observes a call. It adds the media to the trace, and reports in response headers and in the log which media are left out
 * and which schema keywords have no effect. After the headers are sent, it only logs.
 */
export function notesOf(call: ApiCall): Required<Pick<Caller, 'trace' | 'onIgnored'>> {
  const notes = new Set<string>()
  const ignored = new Set<string>()
  const { id: traceId, logger } = call
  return {
    trace: {
      ...call.trace?.media,
      note(param, text, level = 'warn') {
        logger[level]({ traceId, param }, text)
        notes.add(text)
        call.setHeader(MEDIA_NOTES, [...notes].join('. '))
      },
    },
    onIgnored(keywords) {
      const known = ignored.size
      for (const keyword of keywords) ignored.add(keyword)
      if (ignored.size === known) return
      const names = inHeader(ignored)
      logger.info({ traceId, keywords: names }, 'Keywords of a JSON schema have no effect')
      call.setHeader(IGNORED_KEYWORDS, names)
    },
  }
}

/** Adds a warning about the model to the response's headers. The sentence comes from a file. */
export function warnIn(call: ApiCall, warning: string): void {
  call.setHeader(WARNING, warning.replace(/[^ -~]/g, '?').slice(0, MOST_CHARACTERS))
}

/** Joins names with commas, as far as there is room. A header holds only ASCII, and clients split at commas. */
function inHeader(names: Iterable<string>): string {
  let text = ''
  for (const name of names) {
    const written = `${text === '' ? '' : ', '}${escaped(name)}`
    if (text.length + written.length > MOST_CHARACTERS) return `${text}${text === '' ? '' : ', '}...`
    text += written
  }
  return text
}

/** Escapes as in a JSON string, and also commas and outer blanks. Only the part of a name that may fit is read. */
function escaped(name: string): string {
  return name
    .slice(0, MOST_CHARACTERS + 1)
    .replace(/[^ -~]|[,\\]|^ | $|^$/g, (unit) => `\\u${(unit || '\0').charCodeAt(0).toString(16).padStart(4, '0')}`)
}
