import type { FastifyInstance } from 'fastify'
import type { ReplyEvent } from '../../../conversation/reply/reply.ts'
import type { ReadBody } from '../../http/body/body-reader.ts'
import { addCalls } from '../../http/client-call.ts'
import { addUnknown } from '../../http/routes.ts'
import { admitUnmetered, bodiesOf, type Serving } from '../admission.ts'
import { type ChatSurface, serveChat } from '../serve-chat.ts'
import { toChatRequest } from './chat-request.ts'
import { answerAsAnthropic } from './errors.ts'
import { MessageWriter } from './message-writer.ts'
import { addAnthropicModels, modelNotFound } from './models.ts'
import { countTokensBody, type MessageRequestBody, messageBody } from './wire/message-request.ts'
import type { MessageTokensBody } from './wire/message-response.ts'

const PATH = '/v1/messages'
const ENDPOINT = 'messages'
const COUNTED = bodiesOf(ENDPOINT, countTokensBody, modelNotFound)

/**
 * `POST /v1/messages`, `POST /v1/messages/count_tokens`, and the models in Anthropic's shape. The contract has none of
 * them.
 */
export function addMessages(app: FastifyInstance, serving: Serving): void {
  const surface = messages(serving)
  app.register(async (scope) => {
    answerAsAnthropic(scope)
    addCalls(scope, {
      bucket: 'chat',
      keyHeader: 'x-api-key',
      answers: {
        [PATH]: (call) => serveChat(call, serving, surface),
        [`${PATH}/count_tokens`]: async (call): Promise<MessageTokensBody> => {
          const { read, model, caller, signal } = await admitUnmetered(call, serving, COUNTED)
          const measure = await serving.conversations.measureChat(toChatRequest(read, model), caller, signal)
          return { input_tokens: measure.promptTokens }
        },
      },
    })
    addAnthropicModels(scope, serving.models)
    addUnknown(scope, { url: `${PATH}/*`, keyHeader: 'x-api-key' })
    addUnknown(scope, { url: '/v1/*', keyHeader: 'x-api-key', convention: 'anthropic' })
  })
}

export function messages({ conversations }: Serving): ChatSurface<ReadBody<MessageRequestBody>, ReplyEvent> {
  return {
    ...bodiesOf(ENDPOINT, messageBody, modelNotFound),
    async start({ read, model, metered, call, caller, signal }) {
      const events = await conversations.startChat(toChatRequest(read, model), caller, signal)
      const writer = new MessageWriter(read.value, { model, metered, requestId: call.id })
      return { events, writer, streamed: read.value.stream === true }
    },
  }
}
