import type { FastifyInstance, FastifyReply, FastifyRequest, RouteHandlerMethod } from 'fastify'
import type { Conversations } from '../../conversation/conversations.ts'
import type { ReplyEvent } from '../../conversation/reply/reply.ts'
import type { ChatRequest } from '../../conversation/request/chat-request.ts'
import type { ModelCatalog } from '../../inference/catalog/model-catalog.ts'
import { type ApiError, invalidRequest } from '../../lib/errors.ts'
import type { BodyReader } from '../http/body/body-reader.ts'
import { requestSignal } from '../http/connection/abort-signal.ts'
import { answerError, noteError, type ShownError, toApiError } from '../http/error-handler.ts'
import { type Metering, meter } from '../http/record/metering.ts'
import { addEndpoint } from '../http/routes.ts'
import { fromChat, fromGenerate } from './chat-request.ts'
import { LineStream } from './line-stream.ts'
import { findModel, toModelBody, toRunning, toShown } from './models.ts'
import { chatShape, generateShape, ReplyLines, type Shape } from './reply-lines.ts'
import { chatBody, generateBody, type ReplyBody, showBody } from './wire/requests.ts'

export interface OllamaOptions extends Metering {
  readonly bodies: BodyReader
  readonly models: ModelCatalog
  readonly conversations: Conversations
  /** Fires when active requests are to be aborted. */
  readonly shutdown: AbortSignal
}

/** The version of Ollama whose API this is: clients refuse older ones. */
const VERSION = '0.12.11'

const NO_EMBEDDINGS = 'This server makes no embeddings'
const NO_MANAGEMENT = 'Models are not managed here: use lookout pull, add and rm'
/** What Ollama has and this server does not. */
const ABSENT: Readonly<Record<string, string>> = {
  embed: NO_EMBEDDINGS,
  embeddings: NO_EMBEDDINGS,
  pull: NO_MANAGEMENT,
  push: NO_MANAGEMENT,
  create: NO_MANAGEMENT,
  copy: NO_MANAGEMENT,
  delete: NO_MANAGEMENT,
  'blobs/:digest': NO_MANAGEMENT,
}

/**
 * Ollama's API at `/api`, for clients of this machine, which need no key. Whoever sends one is who the key says. The
 * contract has none of it.
 */
export function addOllama(app: FastifyInstance, options: OllamaOptions): void {
  const { models, bodies } = options
  app.register(async (scope) => {
    scope.setErrorHandler((error, request, reply) => answerError(error, request, reply, show))
    // Its clients, and the examples of its documentation, may leave the type of a body out.
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', (_request, _payload, done) => done(null))
    const add = (name: string, method: 'GET' | 'POST', handler: RouteHandlerMethod) =>
      addEndpoint(scope, {
        url: `/api/${name}`,
        bucket: 'chat',
        scope: 'inference',
        keyless: true,
        handlers: { [method]: handler },
      })
    add('version', 'GET', async () => ({ version: VERSION }))
    add('tags', 'GET', async () => ({ models: await Promise.all((await models.list()).map(toModelBody)) }))
    add('ps', 'GET', async () => {
      const loaded = (await models.list()).filter(({ engine }) => engine.state === 'ready')
      return { models: await Promise.all(loaded.map(toRunning)) }
    })
    add('show', 'POST', async (request, reply) => {
      const { value } = await bodies.read(request, reply, showBody)
      return toShown(await findModel(models, value.model || value.name || ''))
    })
    add('chat', 'POST', async (request, reply) => {
      const read = await bodies.read(request, reply, chatBody)
      return answer(request, reply, { ...options, body: read.value, chat: fromChat(read), shape: chatShape })
    })
    add('generate', 'POST', async (request, reply) => {
      const read = await bodies.read(request, reply, generateBody)
      return answer(request, reply, { ...options, body: read.value, chat: fromGenerate(read), shape: generateShape })
    })
    for (const [name, reason] of Object.entries(ABSENT)) {
      const refuse = async () => {
        throw invalidRequest(reason, null)
      }
      addEndpoint(scope, {
        url: `/api/${name}`,
        keyless: true,
        handlers: { GET: refuse, POST: refuse, DELETE: refuse },
      })
    }
  })
}

interface Asked extends OllamaOptions {
  readonly body: ReplyBody
  /** Null for a request that says nothing. */
  readonly chat: ChatRequest | null
  readonly shape: Shape
}

async function answer(request: FastifyRequest, reply: FastifyReply, asked: Asked): Promise<object | undefined> {
  const { body, chat, shape, models, conversations, shutdown } = asked
  const model = await findModel(models, body.model)
  const lines = new ReplyLines(body.model, shape)
  // Models are loaded when they are needed and stay while there is memory, so there is nothing to do.
  if (chat === null) return lines.loaded()
  const { caller, finish } = await meter(asked, request, reply, { endpoint: 'ollama', model })
  const replied = await conversations.startChat(chat, caller, requestSignal(reply, shutdown))
  const events = finished(replied, finish)
  if (!chat.streamed) return lines.whole(events)

  const stream = new LineStream(reply)
  try {
    for await (const event of events) {
      for (const line of lines.of(event)) {
        const full = stream.send(line)
        if (full !== null) await full
      }
    }
  } catch (error) {
    if (!reply.raw.destroyed) {
      const apiError = toApiError(error)
      noteError(apiError, request)
      await stream.send(show(apiError).body)
    }
  } finally {
    stream.end()
  }
}

/** Records the usage before the end of the reply is sent. */
async function* finished(
  events: AsyncIterable<ReplyEvent>,
  finish: (reason: string) => void,
): AsyncGenerator<ReplyEvent, void, void> {
  for await (const event of events) {
    if (event.type === 'finish') finish(event.reason)
    yield event
  }
}

/** Ollama's errors are a text. */
function show({ status, sentence }: ApiError): ShownError {
  return { status, body: { error: sentence } }
}
