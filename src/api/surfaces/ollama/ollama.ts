import type { FastifyInstance } from 'fastify'
import type { ReplyEvent } from '../../../conversation/reply/reply.ts'
import type { ChatRequest } from '../../../conversation/request/chat-request.ts'
import { invalidRequest } from '../../../lib/errors/errors.ts'
import type { ApiCall } from '../../http/api-call.ts'
import { addCalls } from '../../http/client-call.ts'
import { JSON_LINES } from '../../http/connection/response-stream.ts'
import { addEndpoint, addUnknown } from '../../http/routes.ts'
import type { Serving } from '../admission.ts'
import { type ChatSurface, serveChat } from '../serve-chat.ts'
import { fromChat, fromGenerate } from './chat-request.ts'
import { embed, embedOne } from './embed.ts'
import { handleError } from './errors.ts'
import { findModel, toModelBody, toRunning, toShown } from './models.ts'
import { chatShape, generateShape, ReplyLines, type Shape } from './reply-lines.ts'
import { chatBody, generateBody, showBody } from './wire/requests.ts'

/** The version of Ollama whose API this is. Clients reject older ones. */
const VERSION = '0.12.11'

const NO_MANAGEMENT = 'Models are not managed here: use lookout pull, add and rm'
/** Paths of Ollama that this server rejects. */
const ABSENT: Readonly<Record<string, string>> = {
  pull: NO_MANAGEMENT,
  push: NO_MANAGEMENT,
  create: NO_MANAGEMENT,
  copy: NO_MANAGEMENT,
  delete: NO_MANAGEMENT,
  'blobs/:digest': NO_MANAGEMENT,
}

/**
 * Ollama's API at `/api`, for clients on this machine. They need no key, but a key that they send identifies them. The
 * contract has none of it.
 */
export function addOllama(app: FastifyInstance, serving: Serving): void {
  const { models, bodies } = serving
  app.register(async (scope) => {
    scope.setErrorHandler(handleError)
    // Ollama's clients, and its documentation's examples, may omit the type of a body.
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', (_request, _payload, done) => done(null))
    const shared = { bucket: 'chat', keyless: true } as const
    const addGet = (name: string, answer: () => Promise<unknown>) =>
      addEndpoint(scope, { ...shared, scope: 'inference', url: `/api/${name}`, handlers: { GET: answer } })
    addGet('version', async () => ({ version: VERSION }))
    addGet('tags', async () => ({ models: await Promise.all((await models.list()).map(toModelBody)) }))
    addGet('ps', async () => {
      const loaded = (await models.list()).filter(({ engine }) => engine.state === 'ready')
      return { models: await Promise.all(loaded.map(toRunning)) }
    })
    addCalls(scope, {
      ...shared,
      answers: {
        '/api/show': async (call) => {
          const { value } = await bodies.read(call, showBody)
          return toShown(await findModel(models, value.model || value.name || ''))
        },
        '/api/chat': async (call) => {
          const read = await bodies.read(call, chatBody)
          return answer(call, serving, { ...read.value, chat: fromChat(read), shape: chatShape })
        },
        '/api/generate': async (call) => {
          const read = await bodies.read(call, generateBody)
          return answer(call, serving, { ...read.value, chat: fromGenerate(read), shape: generateShape })
        },
      },
    })
    addCalls(scope, {
      bucket: 'embeddings',
      keyless: true,
      answers: {
        '/api/embed': (call) => embed(call, serving),
        '/api/embeddings': (call) => embedOne(call, serving),
      },
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
    addUnknown(scope, { url: '/api/*', keyless: true })
  })
}

interface Asked {
  readonly model: string
  /** Null for a request without a prompt. */
  readonly chat: ChatRequest | null
  readonly shape: Shape
}

async function answer(call: ApiCall, serving: Serving, { model, chat, shape }: Asked) {
  const { models, conversations } = serving
  const writer = new ReplyLines(model, shape)
  if (chat === null) {
    await findModel(models, model)
    // Models are loaded on demand and stay while there is memory, so there is nothing to do.
    return writer.loaded()
  }
  const surface: ChatSurface<ChatRequest, ReplyEvent> = {
    endpoint: 'ollama',
    framing: JSON_LINES,
    read: async () => chat,
    find: () => findModel(models, model),
    start: async ({ caller, signal }) => {
      return { events: await conversations.startChat(chat, caller, signal), writer, streamed: chat.streamed }
    },
  }
  return serveChat(call, serving, surface)
}
