import './input-items.ts'
import './response.ts'
import './response-request.ts'
import {
  inPath,
  json,
  MODEL_ERRORS,
  ok,
  operations,
  PRIORITY,
  paging,
  query,
  ref,
  SUBPROTOCOLS,
} from '../../../http/wire/describe.ts'

const RESPONSE_ID = inPath('response_id', 'The id of the response, which begins with `resp_`.')
const STORED_ERRORS = [401, 403, 404, 429, 503]

/** `/v1/responses` and the paths below it. */
export const RESPONSE_PATHS = operations({
  'POST /v1/responses': {
    id: 'createResponse',
    tag: 'responses',
    summary: 'Reply to a conversation, which the server can store',
    parameters: [PRIORITY],
    body: json('ResponseRequest'),
    replies: ok('The response; with `stream`, its events as they happen, followed by `data: [DONE]`.', {
      ...json('ModelResponse'),
      'text/event-stream': { schema: ref('ResponseEvent') },
    }),
    errors: MODEL_ERRORS,
  },
  'GET /v1/responses': {
    id: 'openResponseSocket',
    tag: 'responses',
    summary: 'A WebSocket that takes requests and sends the events of their responses',
    description:
      'Each message `{"type": "response.create", …}` has the fields of `ResponseRequest`, and is answered with the events of a ' +
      'stream, one response after the other. Of two more fields, `stream_id` is repeated by the events, and `generate: false` ' +
      'only prepares what a later request continues. A request that cannot be answered gets `{"type": "error", "status": …, ' +
      '"error": …}`. `{"type": "response.cancel"}` ends a response. Close codes: 1001 when the server shuts down or after an hour, ' +
      '1008 when the key is revoked or has expired, 1009 for a message over 20 MB, 1013 when the server has no room for it.',
    limited: false,
    parameters: [SUBPROTOCOLS],
    replies: { 101: { description: 'The connection is a WebSocket now.' } },
    errors: [400, 401, 403, 426, 503],
  },
  'POST /v1/responses/input_tokens': {
    id: 'countResponseInputTokens',
    tag: 'responses',
    summary: 'Count the prompt tokens of a response without generating it',
    body: json('ResponsePrompt'),
    replies: ok('The tokens of the prompt.', json('InputTokens')),
    errors: MODEL_ERRORS,
  },
  'GET /v1/responses/{response_id}': {
    id: 'retrieveResponse',
    tag: 'responses',
    summary: 'A stored response',
    parameters: [RESPONSE_ID],
    replies: ok('The response.', json('ModelResponse')),
    errors: [400, ...STORED_ERRORS],
  },
  'DELETE /v1/responses/{response_id}': {
    id: 'deleteResponse',
    tag: 'responses',
    summary: 'Delete a stored response',
    parameters: [RESPONSE_ID],
    replies: ok('The response is deleted.', json('DeletedResponse')),
    errors: STORED_ERRORS,
  },
  'GET /v1/responses/{response_id}/input_items': {
    id: 'listResponseInputItems',
    tag: 'responses',
    summary: 'The input items of a stored response',
    parameters: [
      RESPONSE_ID,
      ...paging('item', { most: 100, usual: 20 }),
      query('order', 'Newest first or oldest first.', { type: 'string', enum: ['asc', 'desc'], default: 'desc' }),
    ],
    replies: ok('A page of items.', json('ResponseInputItemList')),
    errors: [400, ...STORED_ERRORS],
  },
  'POST /v1/responses/{response_id}/cancel': {
    id: 'cancelResponse',
    tag: 'responses',
    summary: 'Always rejected: only responses in the background can be cancelled, and there are none',
    parameters: [RESPONSE_ID],
    replies: {},
    errors: [400, ...STORED_ERRORS],
  },
})
