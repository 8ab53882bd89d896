import { randomUUID } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Conversations } from '../../conversation/conversations.ts'
import type { ReplyEvent } from '../../conversation/reply/reply.ts'
import type { ModelCatalog } from '../../inference/catalog/model-catalog.ts'
import type { ServedModel } from '../../inference/catalog/registry.ts'
import { internalError } from '../../lib/errors.ts'
import type { BodyReader } from '../http/body/body-reader.ts'
import { requestSignal } from '../http/connection/abort-signal.ts'
import { EventStream } from '../http/connection/event-stream.ts'
import { noteError, toApiError } from '../http/error-handler.ts'
import { namedModel } from '../http/named-model.ts'
import { type MeteredRequest, type Metering, meter } from '../http/record/metering.ts'
import { unmetered } from '../http/record/unmetered.ts'
import { addEndpoint } from '../http/routes.ts'
import { toChatRequest } from './chat-request.ts'
import { handleError, REQUEST_ID, toErrorBody } from './errors.ts'
import { BlockCollector, MessageBlocks } from './message-blocks.ts'
import { addAnthropicModels, modelNotFound } from './models.ts'
import { countTokensBody, type MessageRequestBody, messageBody } from './wire/message-request.ts'
import type {
  MessageBody,
  MessageEventBody,
  MessageTokensBody,
  MessageUsageBody,
  StopReason,
} from './wire/message-response.ts'

export interface MessagesOptions extends Metering {
  readonly bodies: BodyReader
  readonly models: ModelCatalog
  readonly conversations: Conversations
  /** Fires when active requests are to be aborted. */
  readonly shutdown: AbortSignal
  readonly keepAliveMs?: number | undefined
}

const PATH = '/v1/messages'

/**
 * `POST /v1/messages`, `POST /v1/messages/count_tokens`, and the models as Anthropic's clients list them. The contract has
 * none of them.
 */
export function addMessages(app: FastifyInstance, options: MessagesOptions): void {
  app.register(async (scope) => {
    scope.setErrorHandler(handleError)
    scope.addHook('onRequest', (request, reply, done) => {
      reply.header(REQUEST_ID, request.id)
      done()
    })
    const shared = { bucket: 'chat', scope: 'inference', keyHeader: 'x-api-key' } as const
    addEndpoint(scope, {
      ...shared,
      url: PATH,
      handlers: { POST: (request, reply) => answer(request, reply, options) },
    })
    addEndpoint(scope, {
      ...shared,
      url: `${PATH}/count_tokens`,
      handlers: { POST: (request, reply) => count(request, reply, options) },
    })
    addAnthropicModels(scope, options.models)
  })
}

async function answer(
  request: FastifyRequest,
  reply: FastifyReply,
  options: MessagesOptions,
): Promise<MessageBody | undefined> {
  const read = await options.bodies.read(request, reply, messageBody)
  const { value: body } = read
  const { models, conversations, shutdown, keepAliveMs } = options
  const model = await namedModel(models, body.model, modelNotFound)
  const metered = await meter(options, request, reply, { endpoint: 'messages', model })
  const chat = toChatRequest(read, model)
  const events = await conversations.startChat(chat, metered.caller, requestSignal(reply, shutdown))
  const message = new MessageWriter(body, model, metered)
  if (!body.stream) return await message.whole(events)

  const stream = new EventStream(reply, keepAliveMs)
  const send = async (event: MessageEventBody) => {
    const full = stream.send(JSON.stringify(event), event.type)
    if (full !== null) await full
  }
  try {
    await send({ type: 'message_start', message: message.start() })
    for await (const event of events) for (const made of message.of(event)) await send(made)
  } catch (error) {
    if (!reply.raw.destroyed) {
      const apiError = toApiError(error)
      noteError(apiError, request)
      await stream.send(JSON.stringify(toErrorBody(apiError, request.id)), 'error')
    }
  } finally {
    stream.end()
  }
}

async function count(
  request: FastifyRequest,
  reply: FastifyReply,
  { bodies, models, conversations, shutdown }: MessagesOptions,
): Promise<MessageTokensBody> {
  const read = await bodies.read(request, reply, countTokensBody)
  const model = await namedModel(models, read.value.model, modelNotFound)
  const caller = unmetered(request, reply, model)
  const measure = await conversations.measureChat(toChatRequest(read, model), caller, requestSignal(reply, shutdown))
  return { input_tokens: measure.promptTokens }
}

type Finish = Extract<ReplyEvent, { type: 'finish' }>

/** Writes one message, whole or as the events of a stream. */
class MessageWriter {
  readonly #id = `msg_${randomUUID().replaceAll('-', '')}`
  readonly #body: MessageRequestBody
  readonly #model: ServedModel
  readonly #metered: MeteredRequest
  readonly #blocks: MessageBlocks

  constructor(body: MessageRequestBody, model: ServedModel, metered: MeteredRequest) {
    this.#body = body
    this.#model = model
    this.#metered = metered
    const { thinking } = body
    const display = thinking && 'display' in thinking ? thinking.display : null
    this.#blocks = new MessageBlocks({ signature: this.#id, showsThinking: display !== 'omitted' })
  }

  /** The message before its first block. */
  start(): MessageBody {
    const { promptTokens } = this.#metered.tokens
    return {
      id: this.#id,
      type: 'message',
      role: 'assistant',
      model: this.#body.model,
      content: [],
      stop_reason: null,
      stop_sequence: null,
      stop_details: null,
      container: null,
      usage: this.#usage(promptTokens, 0),
    }
  }

  of(event: ReplyEvent): MessageEventBody[] {
    if (event.type !== 'finish') return this.#blocks.take(event)
    this.#metered.finish(event.reason)
    const { promptTokens, completionTokens } = event.usage
    const end = { type: 'message_delta', delta: this.#end(event), usage: this.#usage(promptTokens, completionTokens) }
    return [...this.#blocks.end(), end as MessageEventBody, { type: 'message_stop' }]
  }

  async whole(events: AsyncIterable<ReplyEvent>): Promise<MessageBody> {
    const collector = new BlockCollector()
    for await (const event of events) {
      for (const made of this.of(event)) {
        if (made.type === 'message_delta') {
          return { ...this.start(), content: collector.blocks, ...made.delta, usage: made.usage }
        }
        if (made.type !== 'message_start' && made.type !== 'message_stop') collector.add(made)
      }
    }
    throw internalError(new Error('A reply ended without a finish event'))
  }

  #end(finish: Finish): Pick<MessageBody, 'stop_reason' | 'stop_sequence' | 'stop_details'> {
    const { stoppedBy = null } = finish
    return { stop_reason: this.#reason(finish), stop_sequence: stoppedBy, stop_details: null }
  }

  #reason({ reason, stoppedBy, usage }: Finish): StopReason {
    if (stoppedBy !== undefined) return 'stop_sequence'
    if (reason === 'tool_calls') return 'tool_use'
    if (reason !== 'length') return 'end_turn'
    const isFull = usage.promptTokens + usage.completionTokens >= this.#model.contextTokens
    return isFull ? 'model_context_window_exceeded' : 'max_tokens'
  }

  #usage(promptTokens: number, completionTokens: number): MessageUsageBody {
    const cached = Math.min(this.#metered.tokens.cachedTokens, promptTokens)
    return {
      input_tokens: promptTokens - cached,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: cached,
      output_tokens: completionTokens,
    }
  }
}
