import './batches.ts'
import './files.ts'
import './models.ts'
import { PURPOSES } from '../../../files/files.ts'
import { inPath, json, ok, operations, paging, query, RANGE, storedContent } from '../../http/wire/describe.ts'

const BINARY = { schema: { type: 'string', format: 'binary' } }
/** Bytes of any type. Client generators that support bytes recognise them only as an octet stream. */
const BYTES = { 'application/octet-stream': BINARY, '*/*': BINARY }

const MODEL_ID = inPath('model_id', 'The id under which the model is listed.')
const EXTENDED = query('extended', 'Whether to include capabilities, modalities and limits.', {
  type: 'boolean',
  default: false,
})
const FOR_ANTHROPIC = {
  name: 'anthropic-version',
  in: 'header',
  description: 'If it is present, with any value, the response has Anthropic’s shape.',
  schema: { type: 'string' },
}
/** Clients that send `anthropic-version` get Anthropic's errors, others the contract's. */
const EITHER = { errors: ['Error', 'MessageError'], headers: ['request-id'] } as const
/** Either header may hold the key. */
const EITHER_KEY = [{ apiKey: [] }, { anthropicKey: [] }]

const FILE_ID = inPath('file_id', 'The id of the file, which begins with `file-`.')
const BATCH_ID = inPath('batch_id', 'The id of the batch, which begins with `batch_`.')
const STORAGE_ERRORS = [401, 403, 404, 429, 503]

/** The paths of OpenAI's API that run no model. */
export const OPENAI_PATHS = operations({
  'GET /v1/models': {
    id: 'listModels',
    tag: 'models',
    summary: 'The models that are served; in Anthropic’s shape to clients that send `anthropic-version`',
    security: EITHER_KEY,
    parameters: [
      EXTENDED,
      FOR_ANTHROPIC,
      query('limit', 'Maximum number of models in a page, in Anthropic’s shape.', {
        type: 'integer',
        minimum: 1,
        maximum: 1000,
        default: 20,
      }),
      query('after_id', 'Start after the model with this id, in Anthropic’s shape.', { type: 'string' }),
      query('before_id', 'End before the model with this id, in Anthropic’s shape.', { type: 'string' }),
    ],
    replies: ok('The models.', json('ModelList', 'ModelInfoList')),
    errors: [400, 401, 429, 503],
    convention: EITHER,
  },
  'GET /v1/models/{model_id}': {
    id: 'retrieveModel',
    tag: 'models',
    summary: 'One model',
    security: EITHER_KEY,
    parameters: [MODEL_ID, EXTENDED, FOR_ANTHROPIC],
    replies: ok('The model.', json('ExtendedModel', 'Model', 'ModelInfo')),
    errors: [400, 401, 404, 429, 503],
    convention: EITHER,
  },
  'DELETE /v1/models/{model_id}': {
    id: 'deleteModel',
    tag: 'models',
    summary: 'Delete a pulled model; needs a key of scope `admin`',
    parameters: [MODEL_ID],
    replies: ok('The model is deleted.', json('DeletedModel')),
    errors: [400, 401, 403, 404, 409, 429, 503],
  },
  'POST /v1/files': {
    id: 'createFile',
    tag: 'files',
    summary: 'Upload an image, a PDF, video or audio; `Content-Length` is required',
    body: { 'multipart/form-data': { schema: { $ref: '#/components/schemas/FileUpload' } } },
    replies: ok('The file.', json('File')),
    errors: [400, 401, 403, 408, 411, 413, 415, 429, 503],
  },
  'GET /v1/files': {
    id: 'listFiles',
    tag: 'files',
    summary: 'The files of the organisation',
    parameters: [
      ...paging('file', { most: 10_000, usual: 10_000 }),
      query('order', 'Sort order by creation time.', { type: 'string', enum: ['asc', 'desc'], default: 'desc' }),
      query('purpose', 'Only files with this purpose.', { type: 'string', enum: PURPOSES }),
    ],
    replies: ok('A page of files.', json('FileList')),
    errors: [400, 401, 403, 429, 503],
  },
  'GET /v1/files/{file_id}': {
    id: 'retrieveFile',
    tag: 'files',
    summary: 'One file',
    parameters: [FILE_ID],
    replies: ok('The file.', json('File')),
    errors: STORAGE_ERRORS,
  },
  'DELETE /v1/files/{file_id}': {
    id: 'deleteFile',
    tag: 'files',
    summary: 'Delete a file',
    parameters: [FILE_ID],
    replies: ok('The file is deleted.', json('DeletedFile')),
    errors: STORAGE_ERRORS,
  },
  'GET /v1/files/{file_id}/content': {
    id: 'downloadFile',
    tag: 'files',
    summary: 'The bytes of a file, or the part that a `Range` header requests',
    parameters: [FILE_ID, RANGE],
    replies: storedContent('The bytes, with the content type of the file.', BYTES),
    errors: [401, 403, 404, 416, 429, 503],
  },
  'GET /v1/files/{file_id}/url': {
    id: 'getFileUrl',
    tag: 'files',
    summary: 'A URL of a file’s content, which this server accepts wherever it accepts a URL',
    parameters: [FILE_ID],
    replies: ok('The address. It is not signed: who gets the bytes needs a key.', json('FileUrl')),
    errors: STORAGE_ERRORS,
  },
  'POST /v1/batches': {
    id: 'createBatch',
    tag: 'batches',
    summary: 'Run the requests in a file of purpose `batch` at the lowest priority',
    body: json('BatchRequest'),
    replies: ok('The batch, whose validation begins.', json('Batch')),
    errors: [400, 401, 403, 408, 413, 415, 429, 503],
  },
  'GET /v1/batches': {
    id: 'listBatches',
    tag: 'batches',
    summary: 'The batches of the organisation, newest first',
    parameters: paging('batch', { most: 100, usual: 20 }),
    replies: ok('A page of batches.', json('BatchList')),
    errors: [400, 401, 403, 429, 503],
  },
  'GET /v1/batches/{batch_id}': {
    id: 'retrieveBatch',
    tag: 'batches',
    summary: 'One batch',
    limited: false,
    parameters: [BATCH_ID],
    replies: ok('The batch.', json('Batch')),
    errors: [401, 403, 404, 503],
  },
  'POST /v1/batches/{batch_id}/cancel': {
    id: 'cancelBatch',
    tag: 'batches',
    summary: 'Cancel a batch; its output holds the results so far',
    parameters: [BATCH_ID],
    replies: ok('The batch.', json('Batch')),
    errors: [400, 401, 403, 404, 429, 503],
  },
})
