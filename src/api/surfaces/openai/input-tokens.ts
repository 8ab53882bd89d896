import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { requestSignal } from '../../http/connection/abort-signal.ts'
import { namedModel } from '../../http/named-model.ts'
import { unmetered } from '../../http/record/unmetered.ts'
import { addEndpoint } from '../../http/routes.ts'
import type { ChatCompletionsOptions } from './chat-completions.ts'
import { readChatBody, toChatRequest } from './chat-request.ts'
import type { InputTokensBody } from './wire/input-tokens.ts'

/** `POST /v1/chat/completions/input_tokens`: the prompt tokens of a chat that is not answered. The contract has no such path. */
export function addInputTokens(app: FastifyInstance, options: ChatCompletionsOptions): void {
  addEndpoint(app, {
    url: '/v1/chat/completions/input_tokens',
    bucket: 'chat',
    scope: 'inference',
    handlers: { POST: (request, reply) => count(request, reply, options) },
  })
}

async function count(
  request: FastifyRequest,
  reply: FastifyReply,
  options: ChatCompletionsOptions,
): Promise<InputTokensBody> {
  const read = await readChatBody(request, reply, options)
  const { models, conversations, shutdown } = options
  const caller = unmetered(request, reply, await namedModel(models, read.value.model))
  const measure = await conversations.measureChat(toChatRequest(read), caller, requestSignal(reply, shutdown))
  const { promptTokens, imageTokens, audioTokens, exact } = measure
  return {
    object: 'response.input_tokens',
    input_tokens: promptTokens,
    input_tokens_details: { image_tokens: imageTokens, audio_tokens: audioTokens },
    estimated: !exact,
  }
}
