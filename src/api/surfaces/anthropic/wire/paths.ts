import './message-request.ts'
import './message-response.ts'
import { json, MODEL_ERRORS, ok, operations, PRIORITY, stream } from '../../../http/wire/describe.ts'

const SHARED = {
  tag: 'messages',
  /** Either header may hold the key. */
  security: [{ apiKey: [] }, { anthropicKey: [] }],
  errors: [...MODEL_ERRORS, 404, 529],
  convention: { errors: 'MessageError', headers: ['request-id'] },
} as const

/** The paths of Anthropic's convention. */
export const ANTHROPIC_PATHS = operations({
  'POST /v1/messages': {
    ...SHARED,
    id: 'createMessage',
    summary: 'Reply to a conversation, in Anthropic’s shape',
    parameters: [PRIORITY],
    body: json('MessageRequest'),
    replies: ok('The message; with `stream`, its events as they happen, each with its type as the name.', {
      ...json('MessageReply'),
      ...stream('MessageEvent', { errors: 'MessageError' }),
    }),
  },
  'POST /v1/messages/count_tokens': {
    ...SHARED,
    id: 'countMessageTokens',
    summary: 'Count the prompt tokens of a message without generating it',
    body: json('CountTokensRequest'),
    replies: ok('The tokens of the prompt.', json('MessageTokens')),
  },
})
