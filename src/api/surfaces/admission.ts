import type { Conversations } from '../../conversation/conversations.ts'
import type { ModelCatalog } from '../../inference/catalog/model-catalog.ts'
import type { ServedModel } from '../../inference/catalog/registry.ts'
import type { ApiError } from '../../lib/errors/errors.ts'
import type { ApiCall } from '../http/api-call.ts'
import type { BodyFormat } from '../http/body/body-format.ts'
import type { BodyReader, ReadBody } from '../http/body/body-reader.ts'
import { requestSignal } from '../http/connection/abort-signal.ts'
import { namedModel } from '../http/named-model.ts'
import { type MeteredRequest, type Metering, meter } from '../http/record/metering.ts'
import { notesOf } from '../http/record/response-notes.ts'

/** The dependencies of all endpoints that run a model. */
export interface Serving extends Metering {
  readonly bodies: BodyReader
  readonly models: ModelCatalog
  readonly conversations: Conversations
  /** Fires when active requests must be aborted. */
  readonly shutdown: AbortSignal
  readonly keepAliveMs?: number | undefined
}

/** How an endpoint reads its requests and finds their model. */
export interface Reading<Read> {
  /** The endpoint's name in the ledger. */
  readonly endpoint: string
  read(call: ApiCall, bodies: BodyReader): Promise<Read>
  find(read: Read, models: ModelCatalog): Promise<ServedModel>
}

/**
 * Reads JSON bodies that name their model.
 * @param missing the error for a model that does not exist.
 */
export function bodiesOf<Fields extends { readonly model: string }>(
  endpoint: string,
  format: BodyFormat<Fields>,
  missing?: (id: string) => ApiError,
): Reading<ReadBody<Fields>> {
  return {
    endpoint,
    read: (call, bodies) => bodies.read(call, format),
    find: ({ value }, models) => namedModel(models, value.model, missing),
  }
}

/** A call that has been admitted to its model. */
export interface Admitted<Read> extends Pick<MeteredRequest, 'caller'> {
  readonly read: Read
  readonly model: ServedModel
  /** Fires when its work must stop. */
  readonly signal: AbortSignal
  readonly metered: MeteredRequest
}

/** Reads the request of a call and admits it to its model. @throws ApiError */
export async function admit<Read>(
  call: ApiCall,
  serving: Serving,
  { endpoint, ...reading }: Reading<Read>,
): Promise<Admitted<Read>> {
  const read = await reading.read(call, serving.bodies)
  const model = await reading.find(read, serving.models)
  const metered = await meter(serving, call, { endpoint, model })
  return { read, model, metered, caller: metered.caller, signal: requestSignal(call.closed, serving.shutdown) }
}

/**
 * Reads and admits a call that computes no tokens: the ledger gets no row, and a spent budget does not matter. The model
 * stays loaded until the response has been sent.
 */
export async function admitUnmetered<Read>(
  call: ApiCall,
  serving: Serving,
  reading: Reading<Read>,
): Promise<Omit<Admitted<Read>, 'metered'>> {
  const read = await reading.read(call, serving.bodies)
  const model = await reading.find(read, serving.models)
  call.servedBy(model.id)
  const hold = model.engine.hold?.()
  const { closed, principal } = call
  closed.addEventListener('abort', () => hold?.release())
  if (closed.aborted) hold?.release()
  const caller = { model, organisation: principal.organisation, ...notesOf(call) }
  return { read, model, caller, signal: requestSignal(closed, serving.shutdown) }
}
