import { randomUUID } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import type { Compatibility } from '../../../config/compatibility.ts'
import type { ChoiceEvent, ReplyEvent } from '../../../conversation/reply/reply.ts'
import type { ReadBody } from '../../http/body/body-reader.ts'
import { addCalls } from '../../http/client-call.ts'
import { admitUnmetered, bodiesOf, type Serving } from '../admission.ts'
import { type ChatSurface, serveChat } from '../serve-chat.ts'
import { toChatRequest } from './chat-request.ts'
import { CompletionWriter } from './completion-writer.ts'
import { toInputTokens } from './input-tokens.ts'
import { type ChatRequestBody, chatBody, openAiChatBody } from './wire/chat-request.ts'

export interface ChatCompletionsOptions extends Serving {
  readonly compatibility: Compatibility
}

const URL = '/v1/chat/completions'

/** `POST /v1/chat/completions`, and below it `/input_tokens`, which the contract does not have. */
export function addChatCompletions(app: FastifyInstance, options: ChatCompletionsOptions): void {
  const surface = chatCompletions(options)
  addCalls(app, {
    bucket: 'chat',
    answers: {
      [URL]: (call) => serveChat(call, options, surface),
      [`${URL}/input_tokens`]: async (call) => {
        const { read, model, caller, signal } = await admitUnmetered(call, options, surface)
        const chat = toChatRequest(read, options.compatibility, model.served.reasoning)
        return toInputTokens(await options.conversations.measureChat(chat, caller, signal))
      },
    },
  })
}

export function chatCompletions({
  compatibility,
  conversations,
}: ChatCompletionsOptions): ChatSurface<ReadBody<ChatRequestBody>, ReplyEvent | ChoiceEvent> {
  return {
    ...bodiesOf('chat', compatibility === 'openai' ? openAiChatBody : chatBody),
    async start({ read, model, call, metered, caller, signal }) {
      const { value: body } = read
      const chat = toChatRequest(read, compatibility, model.served.reasoning)
      const count = chat.choices ?? 1
      // Most requests ask for one reply, whose events need no numbers.
      const events = await (count === 1
        ? conversations.startChat(chat, caller, signal)
        : conversations.startChoices(chat, caller, signal))
      const heading = {
        id: `chatcmpl-${randomUUID().replaceAll('-', '')}`,
        created: Math.floor(Date.now() / 1000),
        model: body.model,
        // The contract has no such field.
        get fingerprint() {
          return compatibility === 'openai' ? metered.fingerprint : null
        },
      }
      const rated = chat.topLogProbs !== null
      // Clients of Mistral's API do not know `stream_options`, and reject calls in several chunks and a usage of null.
      const callsAreWhole = /^mistral-client/i.test(call.headers['user-agent'] ?? '')
      const tellsUsage = !callsAreWhole && body.stream_options?.include_usage === true
      const writer = new CompletionWriter(heading, { rated, tellsUsage, callsAreWhole, compatibility, metered }, count)
      return { events, writer, streamed: body.stream === true }
    },
  }
}
