import type { FastifyInstance } from 'fastify'
import type { ModelPulls } from '../../hub/model-pulls.ts'
import type { PullEvent } from '../../hub/pull-event.ts'
import type { ModelCatalog } from '../../inference/catalog/model-catalog.ts'
import type { ServedModel } from '../../inference/catalog/registry.ts'
import { modelOverloaded } from '../../lib/errors/errors.ts'
import type { ApiCall } from '../http/api-call.ts'
import { callOf } from '../http/client-call.ts'
import { EVENTS } from '../http/connection/response-stream.ts'
import { noteError, toApiError } from '../http/error-handler.ts'
import type { Examinations } from '../http/examinations.ts'
import { addEndpoint } from '../http/routes.ts'
import type { Serving } from '../surfaces/admission.ts'
import { PullStream } from './pull-stream.ts'
import { type ModelPullEventBody, modelPullBody } from './wire/model-pull.ts'

export interface ModelPullsOptions extends Pick<Serving, 'bodies' | 'models' | 'keepAliveMs'> {
  readonly pulls: ModelPulls
  readonly examinations: Pick<Examinations, 'start'>
  /** Fires when new requests are no longer accepted. A pull can resume later, so it does not delay the shutdown. */
  readonly draining: AbortSignal
}

const RETRY_SECONDS = 5

/** `POST /v1/models/pull`, for the operator's keys. The contract has no such path. */
export function addModelPulls(app: FastifyInstance, options: ModelPullsOptions): void {
  addEndpoint(app, {
    url: '/v1/models/pull',
    bucket: 'models',
    scope: 'admin',
    handlers: { POST: (request, reply) => pull(callOf(request, reply), options) },
  })
}

/**
 * Errors before the first event are plain responses. The stream begins with that event, so that a missing repository gets
 * its own status.
 */
async function pull(call: ApiCall, options: ModelPullsOptions): Promise<undefined> {
  const { value: body } = await options.bodies.read(call, modelPullBody)
  const { models, pulls, draining, keepAliveMs } = options
  const { closed } = call
  let stream: PullStream | null = null
  const begin = () => new PullStream(call.openStream(EVENTS, keepAliveMs))
  const report = (event: PullEvent) => {
    const told = toBody(event)
    if (told === null) return
    stream ??= begin()
    stream.tell(told)
  }
  try {
    const asked = { model: body.model, projector: body.projector ?? 'auto', isDryRun: body.dry_run ?? false }
    const id = await pulls.pull(asked, report, AbortSignal.any([closed, draining]))
    const model = id === null || body.examine === false ? null : await storedModel(id, models)
    // It begins before the client learns of the model, so that the model is listed with its examination from the start.
    if (model !== null) await options.examinations.start(model)
    stream ??= begin()
    await stream.end(id === null ? null : { type: 'done', id, ...(await servingOf(id, models)) })
  } catch (cause) {
    const error = draining.aborted && !closed.aborted ? shuttingDown() : cause
    if (stream === null) throw error
    if (closed.aborted) return
    const apiError = toApiError(error)
    noteError(apiError, call)
    await (stream as PullStream).end(apiError.toBody())
  }
}

/** Returns the model that a pull added; null if it is not served. */
async function storedModel(id: string, models: ModelCatalog): Promise<ServedModel | null> {
  await models.refresh()
  const model = await models.find(id)
  return model !== undefined && models.isStored(model) ? model : null
}

async function servingOf(id: string, models: ModelCatalog): Promise<{ served: boolean; reason: string | null }> {
  if ((await storedModel(id, models)) !== null) return { served: true, reason: null }
  const model = await models.find(id)
  if (model !== undefined) return { served: false, reason: `'${id}' is the name of a model of the server's settings` }
  return { served: false, reason: models.refusalOf(id)?.message ?? `The card of '${id}' is not in the model store` }
}

/** Converts an event for clients, without the server's paths. `done` comes once the model is served. */
function toBody(event: PullEvent): ModelPullEventBody | null {
  switch (event.type) {
    case 'choice': {
      const { model, available, context, choices, projector } = event
      return {
        type: 'choice',
        model,
        available_bytes: available,
        context_tokens: context,
        options: choices.map(({ quant, bytes, memory, fits, cached, chosen }) => ({
          quant,
          bytes,
          memory_bytes: Math.round(memory),
          fits,
          cached,
          chosen,
        })),
        projector: projector?.file ?? null,
      }
    }
    case 'note':
      return { type: 'note', message: event.message }
    case 'found':
    case 'check':
      return { type: event.type, file: event.file }
    case 'progress':
      return {
        type: 'progress',
        file: event.file,
        done_bytes: event.done,
        total_bytes: event.total,
        bytes_per_second: Math.round(event.rate),
        seconds_left: event.eta,
      }
    case 'done':
    case 'error':
      return null
  }
}

function shuttingDown(): Error {
  return modelOverloaded('The server is shutting down; pull the model again to resume', RETRY_SECONDS)
}
