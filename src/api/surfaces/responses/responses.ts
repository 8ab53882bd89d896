import type { FastifyInstance } from 'fastify'
import type { ReplyEvent } from '../../../conversation/reply/reply.ts'
import { newResponseId } from '../../../responses/response-id.ts'
import type { ApiCall } from '../../http/api-call.ts'
import type { ReadBody } from '../../http/body/body-reader.ts'
import { addCalls } from '../../http/client-call.ts'
import { admitUnmetered, bodiesOf } from '../admission.ts'
import type { ChatCompletionsOptions } from '../openai/chat-completions.ts'
import { toInputTokens } from '../openai/input-tokens.ts'
import { type ChatSurface, serveChat } from '../serve-chat.ts'
import { HeldInput } from './held-input.ts'
import { begunResponse } from './response-body.ts'
import { toChat } from './response-request.ts'
import { type SourceOptions, sourceOf } from './response-source.ts'
import { ResponseWriter } from './response-writer.ts'
import { addStoredResponses } from './stored-responses.ts'
import type { ResponseBody } from './wire/response.ts'
import {
  functionsOf,
  type ResponseRequestBody,
  responseBody,
  responsePromptBody,
  wantsEncrypted,
} from './wire/response-request.ts'

export interface ResponsesApiOptions extends ChatCompletionsOptions, SourceOptions {}

const URL = '/v1/responses'
const ENDPOINT = 'responses'
const COUNTED = bodiesOf(ENDPOINT, responsePromptBody)

/** `/v1/responses` and the paths below it. The contract has none of them. */
export function addResponses(app: FastifyInstance, options: ResponsesApiOptions): void {
  const surface = responses(options)
  addCalls(app, {
    bucket: 'chat',
    answers: {
      [URL]: (call) => serveChat(call, options, surface),
      [`${URL}/input_tokens`]: async (call) => {
        const { read, caller, signal } = await admitUnmetered(call, options, COUNTED)
        const { chat } = await chatOf(read, call, options)
        return toInputTokens(await options.conversations.measureChat(chat, caller, signal))
      },
    },
  })
  addStoredResponses(app, options)
}

/** Converts a request to its chat, with the chat's source. */
async function chatOf(read: ReadBody<ResponseRequestBody>, { principal }: ApiCall, options: ResponsesApiOptions) {
  const source = await sourceOf(read.value, principal, options)
  return { source, chat: toChat(read, { ...source, compatibility: options.compatibility }) }
}

export function responses(options: ResponsesApiOptions): ChatSurface<ReadBody<ResponseRequestBody>, ReplyEvent> {
  const { conversations, files, responses: stored } = options
  return {
    ...bodiesOf(ENDPOINT, responseBody),
    async start({ read, call, metered, caller, signal, held }) {
      const { value: body, rawParameters } = read
      const { principal } = call
      const { source, chat } = await chatOf(read, call, options)
      const store = body.store !== false && stored.enabled
      const heading = { id: newResponseId(), createdAt: Math.floor(Date.now() / 1000), store, body, rawParameters }
      const input = held.use(
        await HeldInput.hold({ ...source, own: store ? source.own : [] }, principal.organisation, files),
      )
      if (store) await files.checkStorage(principal, input.newBytes + mostOfResponse(read))
      const events = await conversations.startChat(chat, caller, signal)
      const toStored = (ended: ResponseBody) => ({
        id: ended.id,
        chain: source.chain,
        held: input.take(),
        body: JSON.stringify(ended),
        input: (ids: ReadonlyMap<string, string>) => JSON.stringify(input.stored(ended.id, ids)),
      })
      const writer = new ResponseWriter({
        // After the check that the tools fit the context, because the response repeats them.
        begun: begunResponse(heading),
        // Whether the model's replies may contain annotations.
        annotated: caller.model.served.outputFormats.length > 0,
        functions: functionsOf(body.tools ?? []),
        summarised: (body.reasoning?.summary ?? null) !== null,
        encrypted: wantsEncrypted(body),
        metered,
        store: store ? (ended) => stored.keep(principal, toStored(ended)) : null,
      })
      return { events, writer, streamed: body.stream === true }
    },
  }
}

/** Counts the characters that a response repeats from its request, apart from short fields. */
function mostOfResponse({ value: { instructions }, rawParameters }: ReadBody<ResponseRequestBody>): number {
  return rawParameters.reduce((sum, text) => sum + (text ?? '').length, (instructions ?? '').length)
}
