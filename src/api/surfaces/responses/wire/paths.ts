import './input-items.ts'
import './response.ts'
import './response-request.ts'
import {
  inPath,
  json,
  MODEL_ERRORS,
  operation,
  type Paths,
  PRIORITY,
  paging,
  query,
  ref,
} from '../../../http/wire/describe.ts'

const RESPONSE_ID = inPath('response_id', 'The id of the response, which begins with `resp_`.')
const STORED_ERRORS = [401, 403, 404, 429, 503]

/** `/v1/responses` and the paths below it. */
export const RESPONSE_PATHS: Paths = {
  '/v1/responses': {
    post: operation({
      id: 'createResponse',
      tag: 'responses',
      summary: 'Reply to a conversation, which the server can store',
      parameters: [PRIORITY],
      body: json('ResponseRequest'),
      replies: {
        200: {
          description: 'The response; with `stream`, its events as they happen, followed by `data: [DONE]`.',
          content: { ...json('Response'), 'text/event-stream': { schema: ref('ResponseEvent') } },
        },
      },
      errors: MODEL_ERRORS,
    }),
  },
  '/v1/responses/input_tokens': {
    post: operation({
      id: 'countResponseInputTokens',
      tag: 'responses',
      summary: 'Count the prompt tokens of a response without generating it',
      body: json('ResponsePrompt'),
      replies: { 200: { description: 'The tokens of the prompt.', content: json('InputTokens') } },
      errors: MODEL_ERRORS,
    }),
  },
  '/v1/responses/{response_id}': {
    get: operation({
      id: 'retrieveResponse',
      tag: 'responses',
      summary: 'A stored response',
      parameters: [RESPONSE_ID],
      replies: { 200: { description: 'The response.', content: json('Response') } },
      errors: [400, ...STORED_ERRORS],
    }),
    delete: operation({
      id: 'deleteResponse',
      tag: 'responses',
      summary: 'Delete a stored response',
      parameters: [RESPONSE_ID],
      replies: { 200: { description: 'The response is deleted.', content: json('DeletedResponse') } },
      errors: STORED_ERRORS,
    }),
  },
  '/v1/responses/{response_id}/input_items': {
    get: operation({
      id: 'listResponseInputItems',
      tag: 'responses',
      summary: 'The input items of a stored response',
      parameters: [
        RESPONSE_ID,
        ...paging('item', { most: 100, usual: 20 }),
        query('order', 'Newest first or oldest first.', { type: 'string', enum: ['asc', 'desc'], default: 'desc' }),
      ],
      replies: { 200: { description: 'A page of items.', content: json('ResponseInputItemList') } },
      errors: [400, ...STORED_ERRORS],
    }),
  },
  '/v1/responses/{response_id}/cancel': {
    post: operation({
      id: 'cancelResponse',
      tag: 'responses',
      summary: 'Always rejected: only responses in the background can be cancelled, and there are none',
      parameters: [RESPONSE_ID],
      replies: {},
      errors: [400, ...STORED_ERRORS],
    }),
  },
}
