import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type Batch, type Batches, isBatchId } from '../../batches/batches.ts'
import { invalidRequest } from '../../lib/errors/errors.ts'
import { principalOf } from '../http/access/auth.ts'
import type { ApiCall } from '../http/api-call.ts'
import type { BodyReader } from '../http/body/body-reader.ts'
import { callOf } from '../http/client-call.ts'
import { toPage } from '../http/page.ts'
import { queryNumber } from '../http/query.ts'
import { addEndpoint } from '../http/routes.ts'
import { type BatchBody, type BatchListBody, batchBody, windowSeconds } from './wire/batches.ts'

export interface BatchesApiOptions {
  readonly bodies: BodyReader
  readonly batches: Batches
  /** Called when a batch has been created or cancelled. */
  readonly onBatch: () => void
}

const MAX_PAGE = 100
const DEFAULT_PAGE = 20

/** `POST` and `GET /v1/batches`; `GET /v1/batches/{batch_id}`; `POST /v1/batches/{batch_id}/cancel` */
export function addBatches(app: FastifyInstance, options: BatchesApiOptions): void {
  const { batches, onBatch } = options
  addEndpoint(app, {
    url: '/v1/batches',
    scope: 'inference',
    bucket: 'batches',
    handlers: {
      POST: (request, reply) => create(callOf(request, reply), options),
      GET: (request) => list(request, batches),
    },
  })
  addEndpoint(app, {
    url: '/v1/batches/:batch_id',
    scope: 'inference',
    handlers: {
      GET: async (request) => toBody(found(await batches.find(...keyOf(request)), request)),
    },
  })
  addEndpoint(app, {
    url: '/v1/batches/:batch_id/cancel',
    scope: 'inference',
    bucket: 'batches',
    handlers: {
      POST: async (request) => {
        request.raw.resume()
        const batch = found(await batches.cancel(...keyOf(request)), request)
        onBatch()
        return toBody(batch)
      },
    },
  })
}

async function create(call: ApiCall, options: BatchesApiOptions): Promise<BatchBody> {
  const { value: body } = await options.bodies.read(call, batchBody)
  const batch = await options.batches.create(call.principal, {
    endpoint: body.endpoint,
    inputFileId: body.input_file_id,
    completionWindow: body.completion_window,
    windowSeconds: windowSeconds(body.completion_window)!,
    metadata: body.metadata ?? null,
    outputSeconds: body.output_expires_after?.seconds ?? null,
  })
  options.onBatch()
  return toBody(batch)
}

async function list(request: FastifyRequest, batches: Batches): Promise<BatchListBody> {
  const { after } = request.query as Record<string, unknown>
  if (after !== undefined && !(typeof after === 'string' && isBatchId(after))) {
    throw invalidRequest("Invalid 'after': expected the id of a batch", 'after')
  }
  const limit = queryNumber(request.query, 'limit', { min: 1, max: MAX_PAGE }) ?? DEFAULT_PAGE
  const page = await batches.list(principalOf(request).organisation, { after: after ?? null, limit })
  return toPage(page.batches.map(toBody), page.hasMore, null)
}

function keyOf(request: FastifyRequest): [organisation: string, id: string] {
  return [principalOf(request).organisation, (request.params as { batch_id: string }).batch_id]
}

function found(batch: Batch | null, request: FastifyRequest): Batch {
  if (batch !== null) return batch
  const [, id] = keyOf(request)
  throw invalidRequest(`No such Batch object: ${id.slice(0, 200)}`, 'id', { status: 404 })
}

function toBody(batch: Batch): BatchBody {
  const { problems, total, completed, failed } = batch
  return {
    id: batch.id,
    object: 'batch',
    // Checked when the batch was created.
    endpoint: batch.endpoint as BatchBody['endpoint'],
    errors: problems && { object: 'list', data: [...problems] },
    input_file_id: batch.inputFileId,
    completion_window: batch.completionWindow,
    status: batch.status,
    output_file_id: batch.outputFileId,
    error_file_id: batch.errorFileId,
    created_at: seconds(batch.createdAt)!,
    in_progress_at: seconds(batch.inProgressAt),
    expires_at: seconds(batch.expiresAt)!,
    finalizing_at: seconds(batch.finalizingAt),
    completed_at: seconds(batch.completedAt),
    failed_at: seconds(batch.failedAt),
    expired_at: seconds(batch.expiredAt),
    cancelling_at: seconds(batch.cancellingAt),
    cancelled_at: seconds(batch.cancelledAt),
    request_counts: { total, completed, failed },
    metadata: batch.metadata,
  }
}

/** Converts a time to Unix seconds. */
function seconds(time: Date | null): number | null {
  return time && Math.floor(time.getTime() / 1000)
}
