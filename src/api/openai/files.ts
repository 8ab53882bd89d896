import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Compatibility } from '../../config/compatibility.ts'
import { JSON_LINES } from '../../files/content-type.ts'
import { isFileId } from '../../files/file-id.ts'
import { type FileQuery, type Files, PURPOSES, type Purpose, type StoredFile } from '../../files/files.ts'
import { type ApiError, invalidRequest } from '../../lib/errors/errors.ts'
import { principalOf } from '../http/access/auth.ts'
import { ClientDisconnected, closedSignal, requestSignal } from '../http/connection/abort-signal.ts'
import type { Convention } from '../http/conventions.ts'
import { toPage } from '../http/page.ts'
import { queryNumber } from '../http/query.ts'
import { addEndpoint } from '../http/routes.ts'
import { sendContent } from '../http/stored-content.ts'
import { declaredLength, leastFileBytes, receiveUpload } from './upload.ts'
import type { DeletedFileBody, FileBody, FileUrlBody } from './wire/files.ts'

export interface FilesApiOptions {
  readonly files: Files
  /** Fires when active requests must be aborted. */
  readonly shutdown: AbortSignal
  readonly compatibility: Compatibility
  /** Makes all responses of a scope look like Anthropic's. */
  readonly answerAsAnthropic: (scope: FastifyInstance) => void
}

const MAX_PAGE = 10_000
const MAX_PAGE_NUMBER = 1_000_000

/**
 * `POST` and `GET /v1/files`; `GET` and `DELETE /v1/files/{file_id}`; `GET /v1/files/{file_id}/content` and `/url`. Anthropic's
 * clients get all but the last in their shape.
 */
export function addFiles(app: FastifyInstance, options: FilesApiOptions): void {
  const { files } = options
  // A separate context without body parsers: uploads are read as streams.
  app.register(async (scope) => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', (_request, _payload, done) => done(null))
    addShaped(scope, options, openaiShape(options.compatibility))
    scope.register(async (theirs) => {
      options.answerAsAnthropic(theirs)
      addShaped(theirs, options, ANTHROPIC_SHAPE)
    })
    addEndpoint(scope, {
      url: '/v1/files/:file_id/url',
      scope: 'files',
      bucket: 'file_retrieve',
      handlers: {
        GET: async (request): Promise<FileUrlBody> => {
          const { id } = await foundFile(request, files)
          return { url: `${request.protocol}://${request.host}/v1/files/${id}/content` }
        },
      },
    })
  })
}

/** How clients of an API see files. */
interface FileShape {
  readonly convention?: Convention
  /** Default purpose; null if a purpose is required. */
  readonly usualPurpose: Purpose | null
  /** Whether an upload may omit its length. */
  readonly mayBeChunked: boolean
  /** The query parameters with the id of the last file of the previous page. */
  readonly after: readonly [string, ...string[]]
  /** Whether pages can also be requested by number, with the query parameters `page`, from 0, and `page_size`. */
  readonly hasNumbers: boolean
  /** Query parameters that would select different files than those listed. */
  readonly unsupported: readonly string[]
  file(file: StoredFile): { readonly id: string }
  page(data: { readonly id: string }[], hasMore: boolean): object
  deleted(id: string): object
}

/** Filters of Mistral's API. */
const FILTERS = ['sample_type', 'source', 'search', 'mimetypes']

function openaiShape(compatibility: Compatibility): FileShape {
  return {
    usualPurpose: null,
    mayBeChunked: compatibility === 'openai',
    after: ['after'],
    ...(compatibility === 'openai'
      ? { hasNumbers: true, unsupported: FILTERS }
      : { hasNumbers: false, unsupported: [] }),
    page: (data, hasMore) => toPage(data, hasMore, ''),
    file: (file) => toBody(file, compatibility),
    deleted: (id) => ({ object: 'file', id, deleted: true }) satisfies DeletedFileBody,
  }
}

const ANTHROPIC_SHAPE: FileShape = {
  convention: 'anthropic',
  usualPurpose: 'user_data',
  mayBeChunked: true,
  after: ['page', 'after_id'],
  hasNumbers: false,
  unsupported: ['ids', 'ids[]', 'scope_id', 'before_id'],
  // Newer clients request the next page by `next_page`, others by `last_id`. With a `first_id`, some would request the previous page.
  page: (data, hasMore) => {
    const last = data.at(-1)?.id ?? null
    return { data, has_more: hasMore, first_id: null, last_id: last, next_page: hasMore ? last : null }
  },
  file: ({ id, bytes, createdAt, filename, contentType }) => ({
    type: 'file',
    id,
    filename,
    mime_type: contentType,
    size_bytes: bytes,
    created_at: new Date(createdAt * 1000).toISOString(),
    downloadable: true,
  }),
  deleted: (id) => ({ type: 'file_deleted', id }),
}

function addShaped(scope: FastifyInstance, options: FilesApiOptions, shape: FileShape): void {
  const { files } = options
  const shared = {
    scope: 'files',
    ...(shape.convention && ({ convention: shape.convention, keyHeader: 'x-api-key' } as const)),
  } as const
  addEndpoint(scope, {
    ...shared,
    url: '/v1/files',
    bucket: { POST: 'file_upload', GET: 'file_list' },
    body: { ownBodyTimeout: true },
    handlers: {
      POST: (request) => upload(request, options, shape),
      GET: (request) => list(request, files, shape),
    },
  })
  addEndpoint(scope, {
    ...shared,
    url: '/v1/files/:file_id/content',
    bucket: 'file_content',
    handlers: { GET: (request, reply) => content(request, reply, options) },
  })
  addEndpoint(scope, {
    ...shared,
    url: '/v1/files/:file_id',
    bucket: { GET: 'file_retrieve', DELETE: 'file_delete' },
    handlers: {
      GET: async (request) => shape.file(await foundFile(request, files)),
      DELETE: (request) => remove(request, files, shape),
    },
  })
}

async function upload(request: FastifyRequest, options: FilesApiOptions, shape: FileShape): Promise<object> {
  const { files, shutdown } = options
  const principal = principalOf(request)
  await files.checkQuota(principal, leastFileBytes(declaredLength(request.raw, shape.mayBeChunked)))
  try {
    const { draft, file } = await receiveUpload(request.raw, files, { usual: shape.usualPurpose, shutdown })
    try {
      return shape.file(await files.keep(principal, draft, file))
    } catch (error) {
      await draft.discard()
      throw error
    }
  } catch (error) {
    if (request.raw.destroyed && !request.raw.complete) throw new ClientDisconnected('The client closed the connection')
    throw error
  }
}

async function list(request: FastifyRequest, files: Files, shape: FileShape): Promise<object> {
  const { query } = request
  const refused = shape.unsupported.find((name) => name in (query as object))
  if (refused !== undefined) throw invalidRequest(`Invalid '${refused}': not supported`, refused)
  const page = await files.list(principalOf(request).organisation, readQuery(query, shape))
  return shape.page(page.files.map(shape.file), page.hasMore)
}

function readQuery(query: unknown, { after: names, hasNumbers }: FileShape): FileQuery {
  const afterName = names.find((name) => name in (query as object)) ?? names[0]
  const { [afterName]: after, order, purpose } = query as Record<string, unknown>
  if (after !== undefined && !(typeof after === 'string' && isFileId(after))) {
    throw invalidRequest(`Invalid '${afterName}': expected the id of a file`, afterName)
  }
  const [size, page] = hasNumbers
    ? [
        queryNumber(query, 'page_size', { min: 1, max: MAX_PAGE }),
        queryNumber(query, 'page', { min: 0, max: MAX_PAGE_NUMBER }),
      ]
    : [null, null]
  const limit = queryNumber(query, 'limit', { min: 1, max: MAX_PAGE }) ?? size ?? MAX_PAGE
  if (order !== undefined && order !== 'asc' && order !== 'desc') {
    throw invalidRequest("Invalid 'order': expected 'asc' or 'desc'", 'order')
  }
  const wanted = PURPOSES.find((known) => known === purpose) ?? null
  if (purpose !== undefined && wanted === null) {
    throw invalidRequest(`Invalid 'purpose': expected ${PURPOSES.map((known) => `'${known}'`).join(' or ')}`, 'purpose')
  }
  return { after: after ?? null, skipped: (page ?? 0) * limit, limit, order: order ?? 'desc', purpose: wanted }
}

async function remove(request: FastifyRequest, files: Files, shape: FileShape): Promise<object> {
  const id = fileIdOf(request)
  if (!(await files.delete(principalOf(request).organisation, id))) throw noSuchFile(id)
  return shape.deleted(id)
}

async function content(request: FastifyRequest, reply: FastifyReply, { files, shutdown }: FilesApiOptions) {
  const { organisation } = principalOf(request)
  const file = await foundFile(request, files)
  const signal = requestSignal(closedSignal(reply), shutdown)
  // OpenAI's clients accept this type where they expect bytes. The Ruby client would parse JSON Lines.
  const wantsBytes = request.headers.accept === 'application/binary' && file.contentType === JSON_LINES
  const bytes = await sendContent(request, reply, {
    ...file,
    ...(wantsBytes && { contentType: 'application/octet-stream' }),
    read: (range) => files.read(organisation, file.id, range, signal),
  })
  if (bytes === null) throw noSuchFile(file.id)
  return bytes
}

async function foundFile(request: FastifyRequest, files: Files): Promise<StoredFile> {
  const id = fileIdOf(request)
  const file = await files.find(principalOf(request).organisation, id)
  if (!file) throw noSuchFile(id)
  return file
}

function fileIdOf(request: FastifyRequest): string {
  return (request.params as { file_id: string }).file_id
}

function noSuchFile(id: string): ApiError {
  return invalidRequest(`No such File object: ${id.slice(0, 200)}`, 'id', { status: 404 })
}

/** Converts a file. The fields have the order of clients' fixtures. The contract has no `status`. */
function toBody(file: StoredFile, compatibility: Compatibility): FileBody {
  const { id, bytes, createdAt, expiresAt, filename, purpose } = file
  const expiry = expiresAt === null ? {} : { expires_at: expiresAt }
  // Clients of Mistral's API, whose purposes these are, accept no file without these fields, nor a list with one.
  const isTheirs = compatibility === 'openai' || purpose === 'ocr' || purpose === 'audio'
  const theirs = isTheirs ? ({ sample_type: sampleType(purpose), source: 'upload', deleted: false } as const) : {}
  const body: FileBody = { object: 'file', id, bytes, created_at: createdAt, ...expiry, filename, purpose, ...theirs }
  // OpenAI's clients can wait until a file is processed. Here, every stored file is.
  return compatibility === 'openai' ? { ...body, status: 'processed' } : body
}

function sampleType(purpose: Purpose): string {
  if (purpose === 'batch') return 'batch_request'
  return purpose === 'batch_output' ? 'batch_result' : `${purpose}_input`
}
