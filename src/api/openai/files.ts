import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Compatibility } from '../../config/compatibility.ts'
import { isFileId } from '../../files/file-id.ts'
import { type FileQuery, type Files, PURPOSES, type StoredFile } from '../../files/files.ts'
import { type ApiError, invalidRequest } from '../../lib/errors.ts'
import { principalOf } from '../http/access/auth.ts'
import { ClientDisconnected, closedSignal, requestSignal } from '../http/connection/abort-signal.ts'
import { toPage } from '../http/page.ts'
import { queryNumber } from '../http/query.ts'
import { addEndpoint } from '../http/routes.ts'
import { sendContent } from '../http/stored-content.ts'
import { declaredLength, leastFileBytes, receiveUpload } from './upload.ts'
import type { DeletedFileBody, FileBody, FileListBody } from './wire/files.ts'

export interface FilesApiOptions {
  readonly files: Files
  /** Fires when active requests must be aborted. */
  readonly shutdown: AbortSignal
  readonly compatibility: Compatibility
}

const MAX_PAGE = 10_000

/** `POST` and `GET /v1/files`; `GET` and `DELETE /v1/files/{file_id}`; `GET /v1/files/{file_id}/content` */
export function addFiles(app: FastifyInstance, options: FilesApiOptions): void {
  const { files, compatibility } = options
  // A separate context without body parsers: uploads are read as streams.
  app.register(async (scope) => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', (_request, _payload, done) => done(null))
    addEndpoint(scope, {
      url: '/v1/files',
      scope: 'files',
      bucket: { POST: 'file_upload', GET: 'file_list' },
      body: { ownBodyTimeout: true },
      handlers: {
        POST: (request, reply) => upload(request, reply, options),
        GET: (request) => list(request, options),
      },
    })
    addEndpoint(scope, {
      url: '/v1/files/:file_id',
      scope: 'files',
      bucket: { GET: 'file_retrieve', DELETE: 'file_delete' },
      handlers: {
        GET: async (request) => toBody(await foundFile(request, files), compatibility),
        DELETE: (request) => remove(request, files),
      },
    })
    addEndpoint(scope, {
      url: '/v1/files/:file_id/content',
      scope: 'files',
      bucket: 'file_content',
      handlers: { GET: (request, reply) => content(request, reply, options) },
    })
  })
}

async function upload(request: FastifyRequest, reply: FastifyReply, options: FilesApiOptions): Promise<FileBody> {
  const { files, shutdown, compatibility } = options
  const principal = principalOf(request)
  await files.checkQuota(principal, leastFileBytes(declaredLength(request.raw, compatibility)))
  const signal = requestSignal(closedSignal(reply), shutdown)
  const stop = () => request.raw.destroy(signal.reason as Error)
  signal.addEventListener('abort', stop, { once: true })
  try {
    const { draft, file } = await receiveUpload(request.raw, files)
    try {
      return toBody(await files.keep(principal, draft, file), compatibility)
    } catch (error) {
      await draft.discard()
      throw error
    }
  } catch (error) {
    if (request.raw.destroyed && !request.raw.complete) throw new ClientDisconnected('The client closed the connection')
    throw error
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

async function list(request: FastifyRequest, { files, compatibility }: FilesApiOptions): Promise<FileListBody> {
  const page = await files.list(principalOf(request).organisation, readQuery(request.query))
  const data = page.files.map((file) => toBody(file, compatibility))
  return toPage(data, page.hasMore, '')
}

function readQuery(query: unknown): FileQuery {
  const { after, order, purpose } = query as Record<string, unknown>
  if (after !== undefined && !(typeof after === 'string' && isFileId(after))) {
    throw invalidRequest("Invalid 'after': expected the id of a file", 'after')
  }
  const limit = queryNumber(query, 'limit', { min: 1, max: MAX_PAGE }) ?? MAX_PAGE
  if (order !== undefined && order !== 'asc' && order !== 'desc') {
    throw invalidRequest("Invalid 'order': expected 'asc' or 'desc'", 'order')
  }
  const wanted = PURPOSES.find((known) => known === purpose) ?? null
  if (purpose !== undefined && wanted === null) {
    throw invalidRequest(`Invalid 'purpose': expected ${PURPOSES.map((known) => `'${known}'`).join(' or ')}`, 'purpose')
  }
  return { after: after ?? null, limit, order: order ?? 'desc', purpose: wanted }
}

async function remove(request: FastifyRequest, files: Files): Promise<DeletedFileBody> {
  const id = fileIdOf(request)
  if (!(await files.delete(principalOf(request).organisation, id))) throw noSuchFile(id)
  return { object: 'file', id, deleted: true }
}

async function content(request: FastifyRequest, reply: FastifyReply, { files, shutdown }: FilesApiOptions) {
  const { organisation } = principalOf(request)
  const file = await foundFile(request, files)
  const signal = requestSignal(closedSignal(reply), shutdown)
  const bytes = await sendContent(request, reply, {
    ...file,
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
  const body: FileBody = { object: 'file', id, bytes, created_at: createdAt, ...expiry, filename, purpose }
  // OpenAI's clients can wait until a file is processed. Here, every stored file is.
  return compatibility === 'openai' ? { ...body, status: 'processed' } : body
}
