import './message-request.ts'
import './message-response.ts'
import { json, MODEL_ERRORS, ok, operation, type Paths, PRIORITY, stream } from '../../../http/wire/describe.ts'

const SHARED = {
  tag: 'messages',
  /** Either header may hold the key. */
  security: [{ apiKey: [] }, { anthropicKey: [] }],
  errors: [...MODEL_ERRORS, 404, 529],
  convention: { errors: 'MessageError', headers: ['request-id'] },
} as const

/** The paths of Anthropic's convention. */
export const ANTHROPIC_PATHS: Paths = {
  '/v1/messages': {
    post: operation({
      ...SHARED,
      id: 'createMessage',
      summary: 'Reply to a conversation, in Anthropic’s shape',
      parameters: [PRIORITY],
      body: json('MessageRequest'),
      replies: ok('The message; with `stream`, its events as they happen, each with its type as the name.', {
        ...json('MessageReply'),
        ...stream('MessageEvent', { errors: 'MessageError' }),
      }),
    }),
  },
  '/v1/messages/count_tokens': {
    post: operation({
      ...SHARED,
      id: 'countMessageTokens',
      summary: 'Count the prompt tokens of a message without generating it',
      body: json('CountTokensRequest'),
      replies: ok('The tokens of the prompt.', json('MessageTokens')),
    }),
  },
}
