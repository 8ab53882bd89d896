import { randomUUID } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Conversations, MultilookReply, MultilookRequest, PromptResult } from '../../conversation/index.ts'
import type { ModelCatalog } from '../../inference/model-catalog.ts'
import { requestSignal } from '../http/abort-signal.ts'
import type { BodyReader } from '../http/body/body-reader.ts'
import { logServerError, toApiError } from '../http/error-handler.ts'
import { type Metering, meter } from '../http/metering.ts'
import { namedModel } from '../http/named-model.ts'
import { addEndpoint } from '../http/routes.ts'
import { toMessageBody } from '../openai/reply-message.ts'
import { toReplyOptions } from '../openai/reply-options.ts'
import { type MultilookRequestBody, multilookBody } from './wire/multilook-request.ts'
import type { MultilookCompletionBody, MultilookResultBody } from './wire/multilook-response.ts'

export interface MultilookOptions extends Metering {
  readonly bodies: BodyReader
  readonly models: ModelCatalog
  readonly conversations: Conversations
  /** Fires when active requests are to be aborted. */
  readonly shutdown: AbortSignal
}

/** `POST /v1/chat/completions/multilook` */
export function addMultilook(app: FastifyInstance, options: MultilookOptions): void {
  addEndpoint(app, {
    url: '/v1/chat/completions/multilook',
    bucket: 'multilook',
    scope: 'inference',
    handlers: { POST: (request, reply) => answer(request, reply, options) },
  })
}

async function answer(
  request: FastifyRequest,
  reply: FastifyReply,
  options: MultilookOptions,
): Promise<MultilookCompletionBody> {
  const { value: body } = await options.bodies.read(request, reply, multilookBody)
  const { models, conversations, shutdown } = options
  const model = await namedModel(models, body.model)
  const { caller, finish } = await meter(options, request, reply, { endpoint: 'multilook', model })
  const multilook = await conversations.multilook(toMultilookRequest(body), caller, requestSignal(reply, shutdown))
  finish(multilook.results.find((result) => result.type === 'answer')?.completions[0]?.reason ?? 'stop')
  return {
    id: `mlcmpl-${randomUUID().replaceAll('-', '')}`,
    object: 'chat.completion.multilook',
    model: body.model,
    results: multilook.results.map((result, index) => toResult(result, index, request)),
    usage: toUsage(multilook.usage),
  }
}

function toMultilookRequest(body: MultilookRequestBody): MultilookRequest {
  return {
    ...toReplyOptions(body),
    context: body.context,
    prompts: body.prompts.map((prompt) => (typeof prompt === 'string' ? prompt : prompt.content)),
    n: body.n ?? 1,
  }
}

function toResult(result: PromptResult, promptIndex: number, request: FastifyRequest): MultilookResultBody {
  if (result.type === 'failure') {
    const error = toApiError(result.error)
    logServerError(error, request)
    const { message, type, code } = error
    return { prompt_index: promptIndex, error: { message, type, ...(code === null ? {} : { code }) } }
  }
  return {
    prompt_index: promptIndex,
    completions: result.completions.map(({ message, reason }, index) => ({
      index,
      message: toMessageBody(message),
      finish_reason: reason,
    })),
    usage: { completion_tokens: result.completionTokens },
  }
}

/** Both details are always present; without audio, `audio_tokens` is 0. */
function toUsage(usage: MultilookReply['usage']): MultilookCompletionBody['usage'] {
  const { promptTokens, completionTokens, cachedTokens, audioTokens } = usage
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens, audio_tokens: audioTokens },
  }
}
