/** Helpers that describe a surface's paths for `openapi.json`. Schemas, headers and parameters are referred to by name. */

/** Operations by path and method. */
export type Paths = Readonly<Record<string, Readonly<Record<string, object>>>>
type Content = Readonly<Record<string, object>>

export interface Operation {
  /** Generated clients call it by this name. */
  readonly id: string
  readonly tag: Tag
  readonly summary: string
  readonly description?: string
  /** By default, a key in `Authorization`. */
  readonly security?: readonly object[]
  /** Parameters in addition to those of every operation. */
  readonly parameters?: readonly object[]
  readonly body?: Content
  /** Whether its requests count towards a rate limit. True by default. */
  readonly limited?: boolean
  /** Successful responses by status. */
  readonly replies: Readonly<Record<number, Reply>>
  /** The statuses of its errors. */
  readonly errors: readonly number[]
  /** The schema of its errors, and the names of its convention's response headers. */
  readonly convention?: Convention
}

interface Reply {
  readonly description: string
  /** Absent for one without a body. */
  readonly content?: Content
  readonly headers?: readonly HeaderName[]
}

interface Convention {
  /** One schema, or several if it depends on the client. */
  readonly errors: string | readonly string[]
  readonly headers?: readonly HeaderName[]
}

/** Groups of operations. A reference shows them together, and generated clients have a module or class for each. */
export const TAGS = {
  chat: ['Chat completions', 'Conversations about text, images, videos and audio, in OpenAI’s shape.'],
  responses: ['Responses', 'OpenAI’s Responses API, with conversations that the server remembers.'],
  multilook: ['Multilook', 'Many prompts over one shared context.'],
  detect: ['Detect', 'Objects in an image, in pixels.'],
  decisions: ['Decisions', 'Typed questions with probabilities, in OpenAI’s shape.'],
  embeddings: ['Embeddings', 'Vectors of texts and scores of documents, for search by meaning.'],
  ocr: ['OCR', 'Pages of documents as Markdown, with places, in Mistral’s shape.'],
  systemOne: ['System One', 'Typed questions with probabilities, in TypeSafe’s shape.'],
  messages: ['Messages', 'Conversations in Anthropic’s shape.'],
  models: ['Models', 'What is served. Keys of scope `admin` may fetch and delete models.'],
  files: ['Files', 'Images, videos, audio and batches that later requests name.'],
  watches: ['Watches', 'Standing questions about frames, and events that begin and end.'],
  batches: ['Batches', 'Many requests in one file, run at the lowest priority.'],
  ollama: ['Ollama', 'Ollama’s API, for programs on this machine.'],
  server: ['Server', 'The server itself.'],
} as const

type Tag = keyof typeof TAGS

export function ref(id: string): { readonly $ref: string } {
  return { $ref: `#/components/schemas/${id}` }
}

export function json(...ids: readonly [string, ...string[]]): Content {
  return { 'application/json': { schema: ids.length === 1 ? ref(ids[0]) : { anyOf: ids.map(ref) } } }
}

/** The response of an operation that succeeds. */
export function ok(description: string, content: Content): Operation['replies'] {
  return { 200: { description, content } }
}

/** The requested part of a file. */
export const RANGE = {
  name: 'range',
  in: 'header',
  description: 'The part to send, such as `bytes=0-1023`.',
  schema: { type: 'string' },
}

/** The responses of an operation that sends a file. */
export function storedContent(description: string, content: Content): Operation['replies'] {
  const headers = ['accept-ranges', 'content-disposition', 'etag'] as const
  return {
    200: { description, content, headers },
    206: { description: 'The requested part.', content, headers: [...headers, 'content-range'] },
    304: { description: 'The file is the one that `If-None-Match` names.', headers },
  }
}

/** Describes a stream. The schema is that of each event's data or of each line. A failing stream ends with an error. */
export function stream(id: string, { errors = 'Error', type = 'text/event-stream' } = {}): Content {
  return { [type]: { schema: { anyOf: [ref(id), ref(errors)] } } }
}

/** How a WebSocket of a page is authenticated. */
export const SUBPROTOCOLS = {
  name: 'sec-websocket-protocol',
  in: 'header',
  description: 'For browsers, which cannot send `Authorization`: `lookout, api-key.<key>`.',
  schema: { type: 'string' },
}

export function query(name: string, description: string, schema: object): object {
  return { name, in: 'query', description, schema }
}

/** Describes the query of a paged list. */
export function paging(noun: string, limits: { readonly most: number; readonly usual: number }): object[] {
  const { most, usual } = limits
  return [
    query('after', `Start after the ${noun} with this id.`, { type: 'string' }),
    query('limit', 'Maximum number in a page.', { type: 'integer', minimum: 1, maximum: most, default: usual }),
  ]
}

export function inPath(name: string, description: string): object {
  return { name, in: 'path', required: true, description, schema: { type: 'string' } }
}

/** The error statuses of an operation that reads a body and runs a model. */
export const MODEL_ERRORS = [400, 401, 403, 408, 413, 415, 429, 500, 503, 504] as const

export const PRIORITY = { $ref: '#/components/parameters/Priority' }
const REQUEST_ID = { $ref: '#/components/parameters/RequestId' }

/** Parameters of several operations. */
export const PARAMETERS = {
  RequestId: {
    name: 'x-request-id',
    in: 'header',
    description: 'An id that the client chooses: up to 128 visible ASCII characters. The response repeats it.',
    schema: { type: 'string', minLength: 1, maxLength: 128 },
  },
  Priority: {
    name: 'x-lookout-priority',
    in: 'header',
    description: 'With `background`, all other requests take precedence, as they do over the lines of batches.',
    schema: { type: 'string', enum: ['background'] },
  },
}

/** Response headers by their names in `openapi.json`. */
export const HEADERS = {
  'x-trace-id': header('The id of this response, as in the server’s log.'),
  'x-request-id': header('The id that the client gave the request; without one, the same id.'),
  'request-id': header('The same id, under the name that Anthropic’s clients read.'),
  'x-typesafe-request-id': header('The same id, under the name that TypeSafe’s clients read.'),
  'retry-after': header('Seconds after which to try again.', 'integer', { minimum: 0 }),
  'retry-after-ms': header('The same in milliseconds, if it is not a whole number of seconds.', 'integer', {
    minimum: 0,
  }),
  'www-authenticate': header('How to send the key: `Bearer`.'),
  'x-ratelimit-limit-requests': header(
    'Requests per minute that the organisation may make to such endpoints. All three headers are absent if the server has no limits.',
    'integer',
  ),
  'x-ratelimit-remaining-requests': header('Requests left.', 'integer'),
  'x-ratelimit-reset-requests': header('Time until the full limit is available again, such as 12.500s.'),
  'x-lookout-note': header('What the model did not get of the media, in sentences. Absent if it got everything.'),
  'x-lookout-ignored-keywords': header(
    'Keywords of the request’s JSON schemas that have no effect, comma-separated. Non-ASCII characters are escaped as in JSON. Absent if there are none.',
    'string',
    { example: 'discriminator, x-order, format: semver' },
  ),
  'x-lookout-warning': header(
    'Why the places that the model writes are unreliable, according to its examination. Absent if they are not.',
  ),
  'x-lookout-fingerprint': header(
    'What the numerical results depend on: weights, release, kernels, settings. Absent if that is not known.',
    'string',
    { example: 'fp_3f9c0a12b4d5' },
  ),
  'accept-ranges': header('`bytes`: clients may request a part of the file.'),
  'content-disposition': header('The file’s name.'),
  'content-range': header('Which bytes these are, and the size of the file.'),
  etag: header('For `If-Range` and `If-None-Match`.'),
  upgrade: header('`websocket`.'),
  location: header('Where to continue.'),
}
type HeaderName = keyof typeof HEADERS

const EVERYWHERE: readonly HeaderName[] = ['x-trace-id', 'x-request-id']
const LIMITS: readonly HeaderName[] = [
  'x-ratelimit-limit-requests',
  'x-ratelimit-remaining-requests',
  'x-ratelimit-reset-requests',
]
/** Headers of operations that run a model. */
const ABOUT_ANSWERS: readonly HeaderName[] = [
  'x-lookout-note',
  'x-lookout-ignored-keywords',
  'x-lookout-warning',
  'x-lookout-fingerprint',
]
/** Headers of errors by status. */
const OF_STATUS: Readonly<Record<number, readonly HeaderName[]>> = {
  401: ['www-authenticate'],
  416: ['accept-ranges', 'content-range', 'etag'],
  426: ['upgrade'],
  429: ['retry-after', 'retry-after-ms'],
  503: ['retry-after', 'retry-after-ms'],
  529: ['retry-after', 'retry-after-ms'],
}

const CONTRACT: Convention = { errors: 'Error' }

/** The meaning of each status in all operations. */
const MEANINGS: Readonly<Record<number, string>> = {
  400: 'The request is invalid. The error names the parameter.',
  401: 'The API key is missing or invalid.',
  403: 'The API key does not have the scope.',
  404: 'It does not exist, or it belongs to another organisation.',
  408: 'The request did not arrive in time.',
  409: 'It is in use by another operation, or paused.',
  411: '`Content-Length` is missing.',
  413: 'The request is too large.',
  415: 'The body has a type or an encoding that is not supported.',
  416: 'The range starts beyond the end of the file.',
  422: 'The request is invalid. The error says where.',
  426: 'The request is not the handshake of a WebSocket.',
  429: 'A rate limit, a quota or the budget is reached.',
  500: 'The server failed. Its log says why.',
  502: 'The hub cannot be reached or rejects the request.',
  503: 'The server is overloaded, shutting down, or without its storage.',
  504: 'The request took too long.',
  507: 'The disk is full.',
  529: 'The server is overloaded.',
}

/** Describes operations by their methods and paths, such as `GET /v1/models`. */
export function operations(routes: Readonly<Record<`${Method} /${string}`, Operation>>): Paths {
  const paths: Record<string, Record<string, object>> = {}
  for (const [route, described] of Object.entries(routes)) {
    const [method, path] = route.split(' ') as [string, string]
    paths[path] = { ...paths[path], [method.toLowerCase()]: operation(described) }
  }
  return paths
}

type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE'

function operation(described: Operation): object {
  const { id, tag, summary, description, security, parameters = [], body, replies, errors } = described
  const { limited = true, convention = CONTRACT } = described
  const asksModel = parameters.includes(PRIORITY)
  const usual = [
    ...EVERYWHERE,
    ...(convention.headers ?? []),
    ...(limited ? LIMITS : []),
    ...(asksModel ? ABOUT_ANSWERS : []),
  ]
  const shapes = [convention.errors].flat() as [string, ...string[]]
  return {
    operationId: id,
    tags: [TAGS[tag][0]],
    summary,
    ...(description === undefined ? {} : { description }),
    ...(security === undefined ? {} : { security }),
    parameters: [...parameters, REQUEST_ID],
    ...(body === undefined ? {} : { requestBody: { required: true, content: body } }),
    responses: {
      ...mapped(replies, ({ headers = [], ...reply }) => ({ ...reply, headers: headersOf([...usual, ...headers]) })),
      ...Object.fromEntries(
        errors.map((status) => [
          status,
          {
            description: MEANINGS[status] ?? 'An error.',
            headers: headersOf([...usual, ...(OF_STATUS[status] ?? [])]),
            content: json(...shapes),
          },
        ]),
      ),
    },
  }
}

function mapped<Value>(record: Readonly<Record<number, Value>>, change: (value: Value) => object): object {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, change(value)]))
}

function headersOf(names: readonly HeaderName[]): Record<string, object> {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]))
}

function header(description: string, type = 'string', more: object = {}): object {
  return { description, schema: { type, ...more } }
}
