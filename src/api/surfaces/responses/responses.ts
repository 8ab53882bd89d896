import type { FastifyInstance } from 'fastify'
import type { ReplyEvent } from '../../../conversation/reply/reply.ts'
import { newResponseId } from '../../../responses/response-id.ts'
import type { ApiCall } from '../../http/api-call.ts'
import type { ReadBody } from '../../http/body/body-reader.ts'
import { ByteBudget } from '../../http/body/byte-budget.ts'
import { addCalls, callOf } from '../../http/client-call.ts'
import { addEndpoint } from '../../http/routes.ts'
import { admitUnmetered, bodiesOf } from '../admission.ts'
import type { ChatCompletionsOptions } from '../openai/chat-completions.ts'
import { toInputTokens } from '../openai/input-tokens.ts'
import { type ChatSurface, serveChat } from '../serve-chat.ts'
import { HeldInput } from './held-input.ts'
import { begunResponse } from './response-body.ts'
import { toChat } from './response-request.ts'
import { type ResponseConnection, ResponseSocket, type ResponseSocketOptions } from './response-socket.ts'
import { type SourceOptions, sourceOf } from './response-source.ts'
import { ResponseWriter } from './response-writer.ts'
import { addStoredResponses } from './stored-responses.ts'
import type { ResponseBody } from './wire/response.ts'
import {
  functionsOf,
  type ResponseCreateBody,
  type ResponseRequestBody,
  responseBody,
  responseCreateBody,
  responsePromptBody,
  wantsEncrypted,
} from './wire/response-request.ts'

export interface ResponsesApiOptions extends ChatCompletionsOptions, SourceOptions {}

/** The room for conversations that connections keep. An organisation may have half of it. */
const KEPT_BYTES = 128 * 2 ** 20

const URL = '/v1/responses'
const ENDPOINT = 'responses'
const COUNTED = bodiesOf(ENDPOINT, responsePromptBody)

/** `/v1/responses` and the paths below it. The contract has none of them. */
export function addResponses(
  app: FastifyInstance,
  options: ResponsesApiOptions & Omit<ResponseSocketOptions, 'kept'>,
): void {
  const surface = responses(options)
  const connected = { ...options, kept: new ByteBudget(KEPT_BYTES) }
  addEndpoint(app, {
    url: URL,
    scope: 'inference',
    bucket: { POST: 'chat' },
    keyHeader: 'sec-websocket-protocol',
    handlers: {
      POST: (request, reply) => serveChat(callOf(request, reply), options, surface),
      GET: async (request, reply) => {
        new ResponseSocket(request, reply, connected, (connection) => responses(options, connection))
      },
    },
  })
  addCalls(app, {
    bucket: 'chat',
    answers: {
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
async function chatOf(
  read: ReadBody<ResponseRequestBody>,
  { principal }: ApiCall,
  options: ResponsesApiOptions,
  connection: ResponseConnection | null = null,
) {
  const source = await sourceOf(read.value, principal, options, (id) => connection?.find(id))
  return { source, chat: toChat(read, { ...source, compatibility: options.compatibility }) }
}

/** @param connection the WebSocket that the responses are sent over, if any. */
export function responses(
  options: ResponsesApiOptions,
  connection: ResponseConnection | null = null,
): ChatSurface<ReadBody<ResponseCreateBody>, ReplyEvent> {
  const { conversations, files, responses: stored } = options
  return {
    ...bodiesOf<ResponseCreateBody>(ENDPOINT, connection === null ? responseBody : responseCreateBody),
    async start({ read: { value, rawParameters }, call, metered, caller, signal, held }) {
      const body = connection === null ? value : { ...value, stream: true }
      const { stream_id: streamId } = body
      const read = { value: body, rawParameters }
      const isEmpty = body.generate === false
      const { principal } = call
      const { source, chat } = await chatOf(read, call, options, connection)
      const store = body.store !== false && stored.enabled
      const heading = { id: newResponseId(), createdAt: Math.floor(Date.now() / 1000), store, body, rawParameters }
      const input = held.use(
        await HeldInput.hold({ ...source, own: store ? source.own : [] }, principal.organisation, files),
      )
      if (store) await files.checkStorage(principal, input.newBytes + mostOfResponse(read))
      connection?.begin(heading.id, store ? null : source.items.map(({ item }) => item))
      // A prompt is computed for the sake of a token.
      const events = await conversations.startChat(isEmpty ? { ...chat, maxTokens: 1 } : chat, caller, signal)
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
        ...{ isOverSocket: connection !== null, streamId, isEmpty },
        store: async (ended) => (store ? stored.keep(principal, toStored(ended)) : connection?.keep(ended)),
      })
      return { events, writer, streamed: body.stream === true }
    },
  }
}

/** Counts the characters that a response repeats from its request, apart from short fields. */
function mostOfResponse({ value: { instructions }, rawParameters }: ReadBody<ResponseRequestBody>): number {
  return rawParameters.reduce((sum, text) => sum + (text ?? '').length, (instructions ?? '').length)
}
