import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type ApiError, invalidRequest } from '../../../lib/errors/errors.ts'
import type { Responses, StoredResponse } from '../../../responses/responses.ts'
import { principalOf } from '../../http/access/auth.ts'
import { toPage } from '../../http/page.ts'
import { queryBoolean, queryNumber } from '../../http/query.ts'
import { addEndpoint } from '../../http/routes.ts'
import { itemsOf } from './response-source.ts'
import type { InputItemListBody } from './wire/input-items.ts'
import type { ItemBody } from './wire/items.ts'
import type { DeletedResponseBody, ResponseBody } from './wire/response.ts'

const MOST_LISTED = 100
const LISTED = 20

/** `GET` and `DELETE /v1/responses/{response_id}`, and the paths below it. */
export function addStoredResponses(app: FastifyInstance, { responses }: { readonly responses: Responses }): void {
  const shared = { bucket: 'stored_responses', scope: 'inference' } as const
  addEndpoint(app, {
    url: '/v1/responses/:response_id',
    ...shared,
    handlers: {
      GET: (request) => retrieve(request, responses),
      DELETE: (request) => remove(request, responses),
    },
  })
  addEndpoint(app, {
    url: '/v1/responses/:response_id/input_items',
    ...shared,
    handlers: { GET: (request) => list(request, responses) },
  })
  addEndpoint(app, {
    url: '/v1/responses/:response_id/cancel',
    ...shared,
    handlers: { POST: (request) => cancel(request, responses) },
  })
}

async function retrieve(request: FastifyRequest, responses: Responses): Promise<ResponseBody> {
  if (queryBoolean(request.query, 'stream')) {
    throw invalidRequest('A completed response cannot be streamed', 'stream')
  }
  const { body } = await found(request, responses)
  return JSON.parse(body) as ResponseBody
}

async function remove(request: FastifyRequest, responses: Responses): Promise<DeletedResponseBody> {
  const id = idOf(request)
  if (!(await responses.delete(principalOf(request).organisation, id))) throw noSuchResponse(id)
  return { id, object: 'response', deleted: true }
}

/** A response is complete before it is stored: there is nothing left to cancel. */
async function cancel(request: FastifyRequest, responses: Responses): Promise<never> {
  const { id } = await found(request, responses)
  throw invalidRequest(`Response '${id}' was not created in the background and cannot be cancelled`, 'response_id')
}

/** The items that the response answers, including the items of earlier responses that it continues. */
async function list(request: FastifyRequest, responses: Responses): Promise<InputItemListBody> {
  const query = readQuery(request.query)
  const id = idOf(request)
  const chain = await responses.chain(principalOf(request).organisation, id)
  const last = chain.at(-1)
  if (last === undefined) throw noSuchResponse(id)
  const items = [...chain.slice(0, -1).flatMap(itemsOf), ...(JSON.parse(last.input) as ItemBody[])].map(toShown)
  if (query.order === 'desc') items.reverse()
  // Conversations of earlier versions may have an id several times: after the first one, pages would never end.
  const before = query.after === null ? -1 : items.findLastIndex((item) => item.id === query.after)
  if (query.after !== null && before === -1) {
    throw invalidRequest("Invalid 'after': the response has no such item", 'after')
  }
  const data = items.slice(before + 1, before + 1 + query.limit)
  return toPage(data as unknown as InputItemListBody['data'], before + 1 + query.limit < items.length, null)
}

function readQuery(query: unknown) {
  const { after, order } = query as Record<string, unknown>
  if (after !== undefined && typeof after !== 'string') {
    throw invalidRequest("Invalid 'after': expected the id of an item", 'after')
  }
  const limit = queryNumber(query, 'limit', { min: 1, max: MOST_LISTED }) ?? LISTED
  if (order !== undefined && order !== 'asc' && order !== 'desc') {
    throw invalidRequest("Invalid 'order': expected 'asc' or 'desc'", 'order')
  }
  return { after: after ?? null, limit, order: order ?? 'desc' } as const
}

/** Adds the fields that clients expect in every part. */
function toShown(item: ItemBody): ItemBody {
  if (item.type === 'function_call_output') {
    return typeof item.output === 'string' ? item : { ...item, output: item.output.map(toShownPart) }
  }
  if (!('role' in item) || typeof item.content === 'string') return item
  return { ...item, content: item.content.map(toShownPart) } as ItemBody
}

function toShownPart<Part extends { readonly type: string }>(part: Part): Part {
  if (part.type === 'input_image') return { detail: 'auto', file_id: null, image_url: null, ...part }
  return part.type === 'output_text' ? { annotations: [], logprobs: [], ...part } : part
}

async function found(request: FastifyRequest, responses: Responses): Promise<StoredResponse> {
  const id = idOf(request)
  const response = await responses.find(principalOf(request).organisation, id)
  if (response === null) throw noSuchResponse(id)
  return response
}

function idOf(request: FastifyRequest): string {
  return (request.params as { response_id: string }).response_id
}

function noSuchResponse(id: string): ApiError {
  return invalidRequest(`Response with id '${id.slice(0, 100)}' not found`, 'response_id', { status: 404 })
}
