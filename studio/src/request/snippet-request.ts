import type { Syntax } from './literal.ts'
import { type MediaFile, mediaOf } from './media-ref.ts'

/** A request to be written as a program that sends it. */
export interface SnippetRequest {
  /** Origin of the server: `http://127.0.0.1:8080`. */
  readonly origin: string
  readonly method: string
  readonly path: string
  /** Its JSON, with `MediaRef` in place of base64; undefined for none. */
  readonly body: unknown
  /** What the response should be, where the request says it. */
  readonly accept: string | null
  readonly key: string
}

/** An endpoint that OpenAI's own packages know, in Python and TypeScript alike. */
export interface OpenAiCall {
  /** Resource of the client: `chat.completions`. */
  readonly resource: string
  /** What is printed of the reply. */
  readonly printed: string
  /** Arguments of its `create` that the page uses. Any other is ours. */
  readonly known: ReadonlySet<string>
}

/** By their paths. */
export const OPENAI_CALLS: Readonly<Record<string, OpenAiCall>> = {
  '/v1/chat/completions': {
    resource: 'chat.completions',
    printed: 'choices[0].message.content',
    known: new Set(
      'messages model max_completion_tokens reasoning_effort response_format stream stream_options temperature tools'.split(
        ' ',
      ),
    ),
  },
  '/v1/decisions': { resource: 'decisions', printed: 'answers', known: new Set(['model', 'input', 'questions']) },
}

/** Whether the response is a stream of events, to be printed as it arrives. */
export function isStreamed({ body, accept }: SnippetRequest): boolean {
  return accept === 'text/event-stream' || (body as { stream?: unknown } | undefined)?.stream === true
}

/** A sentence about the files that a snippet reads; null when it reads none. */
export function filesNote(files: Iterable<MediaFile>): string | null {
  const names = [...files].filter(({ media }) => media.path === null).map(({ fileName }) => oneLine(fileName))
  if (names.length === 0) return null
  const list = names.length === 1 ? names[0] : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`
  return `Reads ${list} from the current folder.`
}

/** For a comment: no name may end its line. */
function oneLine(name: string): string {
  return name.replaceAll(/[\p{Cc}\u2028\u2029]/gu, ' ')
}

/** The parts of a program, with an empty line between them; those that are empty are left out. */
export function program(...blocks: readonly string[]): string {
  return `${blocks.filter((block) => block !== '').join('\n\n')}\n`
}

/** How Python and TypeScript alike write media: a variable has its base64, and JSON's escapes are theirs too. */
export function codeSyntax(
  body: unknown,
  variable: (file: MediaFile) => string,
): Pick<Syntax, 'text' | 'key' | 'media'> {
  const files = mediaOf(body)
  return {
    text: JSON.stringify,
    key: JSON.stringify,
    media: ({ blob, isBare }) => {
      const name = variable(files.get(blob)!)
      return isBare ? name : `${JSON.stringify(`data:${blob.type};base64,`)} + ${name}`
    },
  }
}
