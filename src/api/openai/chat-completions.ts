import { randomUUID } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Compatibility } from '../../config/compatibility.ts'
import type { Conversations } from '../../conversation/conversations.ts'
import {
  collectChoices,
  collectReply,
  type ReplyEvent,
  type ReplyFinish,
  totalUsage,
  type Usage,
  type WholeReply,
} from '../../conversation/reply/reply.ts'
import type { ModelCatalog } from '../../inference/catalog/model-catalog.ts'
import type { BodyReader } from '../http/body/body-reader.ts'
import { requestSignal } from '../http/connection/abort-signal.ts'
import { EventStream } from '../http/connection/event-stream.ts'
import { noteError, toApiError } from '../http/error-handler.ts'
import { namedModel } from '../http/named-model.ts'
import { type Metering, meter } from '../http/record/metering.ts'
import { addEndpoint } from '../http/routes.ts'
import { readChatBody, toChatRequest } from './chat-request.ts'
import { toLogProbs } from './log-probs.ts'
import { toDelta, toMessageBody } from './reply-message.ts'
import type { ChatCompletionBody, ChatCompletionChunkBody, UsageBody } from './wire/chat-response.ts'

export interface ChatCompletionsOptions extends Metering {
  readonly bodies: BodyReader
  readonly models: ModelCatalog
  readonly conversations: Conversations
  readonly compatibility: Compatibility
  /** Fires when active requests are to be aborted. */
  readonly shutdown: AbortSignal
  readonly keepAliveMs?: number | undefined
}

/** Fields that a completion and all its chunks share. */
interface Heading {
  readonly id: string
  readonly created: number
  readonly model: string
  /** OpenAI's `system_fingerprint`; null where there is none, or not yet. */
  readonly fingerprint: string | null
}

/** `POST /v1/chat/completions` */
export function addChatCompletions(app: FastifyInstance, options: ChatCompletionsOptions): void {
  addEndpoint(app, {
    url: '/v1/chat/completions',
    bucket: 'chat',
    scope: 'inference',
    handlers: { POST: (request, reply) => complete(request, reply, options) },
  })
}

async function complete(
  request: FastifyRequest,
  reply: FastifyReply,
  options: ChatCompletionsOptions,
): Promise<ChatCompletionBody | undefined> {
  const read = await readChatBody(request, reply, options)
  const { value: body } = read
  const { models, conversations, compatibility, shutdown, keepAliveMs } = options
  const model = await namedModel(models, body.model)
  const metered = await meter(options, request, reply, { endpoint: 'chat', model })
  const { caller, finish } = metered
  const signal = requestSignal(reply, shutdown)
  const chat = toChatRequest(read)
  const rated = chat.topLogProbs !== null
  const count = chat.choices ?? 1
  // Most requests are for one reply, whose events need no numbers.
  const alone = count === 1 ? await conversations.startChat(chat, caller, signal) : null
  const numbered = alone === null ? await conversations.startChoices(chat, caller, signal) : null
  const heading = {
    id: `chatcmpl-${randomUUID().replaceAll('-', '')}`,
    created: Math.floor(Date.now() / 1000),
    model: body.model,
    // The contract has no such field.
    get fingerprint() {
      return compatibility === 'openai' ? metered.fingerprint : null
    },
  }
  if (!body.stream) {
    const replies = alone === null ? await collectChoices(numbered!, count) : [await collectReply(alone)]
    finish(replies[0]!.finish.reason)
    return toCompletion(heading, replies, { rated, compatibility })
  }

  const stream = new EventStream(reply, keepAliveMs)
  const form = { rated, usage: body.stream_options?.include_usage ? compatibility : null }
  const writers = Array.from({ length: count }, (_, index) => new ChunkWriter(heading, form, index))
  const finishes: ReplyFinish[] = []
  // Most clients take more at once, and waiting would cost as much as the rest of a token.
  const send = (choice: number, event: ReplyEvent): Promise<void> | null => {
    if (event.type === 'finish' && finishes.push(event) === count) finish(event.reason)
    return stream.send(writers[choice]!.of(event))
  }
  try {
    for (const writer of writers) await stream.send(writer.first())
    for await (const event of alone ?? []) {
      const full = send(0, event)
      if (full !== null) await full
    }
    for await (const { choice, event } of numbered ?? []) {
      const full = send(choice, event)
      if (full !== null) await full
    }
    if (form.usage === 'openai') await stream.send(writers[0]!.usage(totalUsage(finishes)))
    await stream.send('[DONE]')
  } catch (error) {
    if (!reply.raw.destroyed) {
      const apiError = toApiError(error)
      noteError(apiError, request)
      await stream.send(JSON.stringify(apiError.toBody()))
    }
  } finally {
    stream.end()
  }
}

function toCompletion(
  heading: Heading,
  replies: readonly WholeReply[],
  { rated, compatibility }: { readonly rated: boolean; readonly compatibility: Compatibility },
): ChatCompletionBody {
  // The contract has no such fields; clients of OpenAI may expect a null.
  const isOpenAi = compatibility === 'openai'
  const none = isOpenAi ? { logprobs: null } : {}
  const { id, created, model, fingerprint } = heading
  return {
    id,
    object: 'chat.completion',
    created,
    model,
    ...(fingerprint === null ? {} : { system_fingerprint: fingerprint }),
    choices: replies.map((reply, index) => ({
      index,
      message: { ...toMessageBody(reply), ...(isOpenAi ? { refusal: null } : {}) },
      ...(rated ? { logprobs: toLogProbs(reply.logProbs) } : none),
      finish_reason: reply.finish.reason,
    })),
    usage: toUsage(totalUsage(replies.map(({ finish }) => finish)), compatibility),
  }
}

interface ChunkForm {
  /** Whether chunks have log-probabilities. */
  readonly rated: boolean
  /**
   * The form of the usage; null when the client does not ask for it. The contract's finish carries it, OpenAI sends a chunk
   * without choices after it.
   */
  readonly usage: Compatibility | null
}

/** Writes the chunks of one reply as JSON: the role, the pieces, and the finish. */
class ChunkWriter {
  /** What is the same in all chunks stands around the delta, and is written once. */
  #before = ''
  #after = ''
  #fingerprint: string | null = null
  readonly #heading: Heading
  readonly #form: ChunkForm
  readonly #index: number

  /** @param index of the choice. */
  constructor(heading: Heading, form: ChunkForm, index: number) {
    this.#heading = heading
    this.#form = form
    this.#index = index
    this.#writeAround()
  }

  #writeAround(): void {
    this.#fingerprint = this.#heading.fingerprint
    const [before, after] = this.#write(SEAM).split(JSON.stringify(SEAM))
    this.#before = before!
    this.#after = after!
  }

  first(): string {
    return this.#write({ role: 'assistant', content: '' })
  }

  of(event: ReplyEvent): string {
    const { logProbs } = event
    if (event.type !== 'finish') {
      const delta = toDelta(event)
      if (this.#fingerprint !== this.#heading.fingerprint) this.#writeAround()
      return logProbs === undefined
        ? this.#before + JSON.stringify(delta) + this.#after
        : this.#write(delta, { logProbs })
    }
    const usage = this.#form.usage === 'contract' ? toUsage(event.usage, 'contract') : null
    return this.#write({}, { logProbs, finish: event.reason, usage })
  }

  /** The chunk that follows all others, as OpenAI has it. */
  usage(usage: Usage): string {
    return JSON.stringify(this.#chunk([], toUsage(usage, 'openai')))
  }

  #write(delta: Choice['delta'], { logProbs, finish = null, usage = null }: ChunkRest = {}): string {
    const { rated } = this.#form
    const logprobs = rated ? { logprobs: logProbs === undefined ? null : toLogProbs(logProbs) } : {}
    return JSON.stringify(this.#chunk([{ index: this.#index, delta, ...logprobs, finish_reason: finish }], usage))
  }

  #chunk(choices: readonly Choice[], usage: UsageBody | null): ChatCompletionChunkBody {
    const { id, created, model, fingerprint } = this.#heading
    return {
      id,
      object: 'chat.completion.chunk',
      created,
      model,
      ...(fingerprint === null ? {} : { system_fingerprint: fingerprint }),
      choices: [...choices],
      ...(this.#form.usage === null ? {} : { usage }),
    }
  }
}

interface ChunkRest {
  readonly logProbs?: ReplyEvent['logProbs']
  readonly finish?: Choice['finish_reason']
  readonly usage?: UsageBody | null
}

type Choice = ChatCompletionChunkBody['choices'][number]

/** A delta that nothing else in a chunk looks like: the name of a model may be anything, but not an unescaped quote. */
const SEAM: Choice['delta'] = { content: 'delta' }

/** `image_tokens` is not in the contract, whose replies have no other fields. */
function toUsage(usage: Usage, compatibility: Compatibility): UsageBody {
  const { promptTokens, completionTokens, imageTokens, audioTokens } = usage
  const details = {
    audio_tokens: audioTokens ?? 0,
    ...(compatibility === 'openai' ? { image_tokens: imageTokens } : {}),
  }
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    ...(audioTokens === null && compatibility === 'contract' ? {} : { prompt_tokens_details: details }),
  }
}
