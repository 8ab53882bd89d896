import { type Syntax, writeLiteral } from './literal.ts'
import { type MediaFile, mediaOf } from './media-ref.ts'
import { hereQuote, shellQuote } from './shell-quote.ts'
import { filesNote, isStreamed, type SnippetRequest } from './snippet-request.ts'

/**
 * The request as commands of a POSIX shell. The body is a here-document: unlike an argument it may be megabytes long, and
 * variables in it hold the media.
 */
export function toCurl(request: SnippetRequest): string {
  const { origin, method, path, body, accept, key } = request
  const files = mediaOf(body)
  const options = [
    ...(method === 'GET' || (method === 'POST' && body !== undefined) ? [] : [`-X ${method}`]),
    `-H ${shellQuote(`Authorization: Bearer ${key}`)}`,
    ...(accept === null ? [] : [`-H ${shellQuote(`Accept: ${accept}`)}`]),
    ...(body === undefined ? [] : [`-H 'Content-Type: application/json'`]),
    ...(body === undefined ? [] : [files.size === 0 ? `--data-binary @- <<'JSON'` : '--data-binary @- <<JSON']),
  ]
  const command = [`curl ${isStreamed(request) ? '-N ' : ''}${shellQuote(origin + path)}`, ...options].join(' \\\n  ')
  if (body === undefined) return `${command}\n`
  const note = filesNote(files.values())
  return [
    ...(note === null ? [] : [`# ${note}`]),
    ...[...files.values()].map((file) => `${variable(file)}=$(${reading(file, origin)} | tr -d '\\n')`),
    `${command}\n${writeLiteral(body, syntaxFor(files))}\nJSON\n`,
  ].join('\n')
}

const variable = ({ number }: MediaFile) => `media_${number}`

function reading({ media, fileName }: MediaFile, origin: string): string {
  return media.path === null
    ? `base64 < ${shellQuote(fileName)}`
    : `curl -s ${shellQuote(origin + media.path)} | base64`
}

function syntaxFor(files: ReturnType<typeof mediaOf>): Syntax {
  const quoted = (text: string) => (files.size === 0 ? JSON.stringify(text) : hereQuote(JSON.stringify(text)))
  return {
    none: 'null',
    yes: 'true',
    no: 'false',
    step: '  ',
    text: quoted,
    key: quoted,
    media: ({ blob, isBare }) => {
      const base64 = `\${${variable(files.get(blob)!)}}`
      return isBare ? `"${base64}"` : `"data:${hereQuote(JSON.stringify(blob.type).slice(1, -1))};base64,${base64}"`
    },
  }
}
