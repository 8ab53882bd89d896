import { randomUUID } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Conversations } from '../../conversation/conversations.ts'
import {
  collectMultilook,
  type MultilookEvent,
  type MultilookReply,
  type PromptResult,
} from '../../conversation/reply/multilook-reply.ts'
import type { FinishReason } from '../../conversation/reply/reply.ts'
import type { MultilookRequest } from '../../conversation/request/multilook-request.ts'
import type { ModelCatalog } from '../../inference/catalog/model-catalog.ts'
import { prefersEvents } from '../http/accept.ts'
import type { BodyReader } from '../http/body/body-reader.ts'
import { requestSignal } from '../http/connection/abort-signal.ts'
import { EventStream } from '../http/connection/event-stream.ts'
import { logServerError, noteError, toApiError } from '../http/error-handler.ts'
import { namedModel } from '../http/named-model.ts'
import { type Metering, meter } from '../http/record/metering.ts'
import { unmetered } from '../http/record/unmetered.ts'
import { addEndpoint } from '../http/routes.ts'
import { toLogProbs } from '../openai/log-probs.ts'
import { toDelta, toMessageBody } from '../openai/reply-message.ts'
import { toReplyOptions } from '../openai/reply-options.ts'
import type { MultilookInputTokensBody } from './wire/multilook-input-tokens.ts'
import { type MultilookRequestBody, multilookBody } from './wire/multilook-request.ts'
import type {
  MultilookCompletionBody,
  MultilookDeltaBody,
  MultilookEndBody,
  MultilookResultBody,
  PromptErrorBody,
} from './wire/multilook-response.ts'

export interface MultilookOptions extends Metering {
  readonly bodies: BodyReader
  readonly models: ModelCatalog
  readonly conversations: Conversations
  /** Fires when active requests are to be aborted. */
  readonly shutdown: AbortSignal
  readonly keepAliveMs?: number | undefined
}

interface ResultForm {
  /** Whose log gets the errors of prompts. */
  readonly request: FastifyRequest
  /** Whether completions have log-probabilities. */
  readonly rated: boolean
}

/** What the whole response and the last event of a stream begin with. */
type Heading = Pick<MultilookCompletionBody, 'id' | 'object' | 'model'>

const URL = '/v1/chat/completions/multilook'

/** `POST /v1/chat/completions/multilook`, and below it `/input_tokens`, which the contract does not have. */
export function addMultilook(app: FastifyInstance, options: MultilookOptions): void {
  addEndpoint(app, {
    url: URL,
    bucket: 'multilook',
    scope: 'inference',
    handlers: { POST: (request, reply) => answer(request, reply, options) },
  })
  addEndpoint(app, {
    url: `${URL}/input_tokens`,
    bucket: 'multilook',
    scope: 'inference',
    handlers: { POST: (request, reply) => count(request, reply, options) },
  })
}

async function answer(
  request: FastifyRequest,
  reply: FastifyReply,
  options: MultilookOptions,
): Promise<MultilookCompletionBody | undefined> {
  const { value: body } = await options.bodies.read(request, reply, multilookBody)
  const { models, conversations, shutdown, keepAliveMs } = options
  const model = await namedModel(models, body.model)
  const { caller, finish } = await meter(options, request, reply, { endpoint: 'multilook', model })
  const signal = requestSignal(reply, shutdown)
  const streamed = prefersEvents(request.headers.accept)
  const asked = toMultilookRequest(body, streamed)
  const form = { request, rated: asked.topLogProbs !== null }
  const events = await conversations.startMultilook(asked, caller, signal)
  const heading: Heading = {
    id: `mlcmpl-${randomUUID().replaceAll('-', '')}`,
    object: 'chat.completion.multilook',
    model: body.model,
  }
  if (!streamed) {
    const { results, usage } = await collectMultilook(events)
    finish(firstReason(results))
    return {
      ...heading,
      results: results.map((result, index) => toResult(result, index, form)),
      usage: toUsage(usage),
    }
  }

  const stream = new EventStream(reply, keepAliveMs)
  const results: PromptResult[] = []
  try {
    for await (const event of events) {
      if (event.type === 'result') results[event.prompt] = event.result
      if (event.type === 'finish') finish(firstReason(results))
      const full = stream.send(JSON.stringify(toEvent(event, heading, form)))
      if (full !== null) await full
    }
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

/** The finish reason that the usage records keep for the call. */
function firstReason(results: readonly PromptResult[]): FinishReason {
  return results.find((result) => result.type === 'answer')?.completions[0]?.reason ?? 'stop'
}

function toEvent(
  event: MultilookEvent,
  heading: Heading,
  form: ResultForm,
): MultilookDeltaBody | MultilookResultBody | MultilookEndBody {
  switch (event.type) {
    case 'piece': {
      const { logProbs } = event.piece
      const logprobs = logProbs === undefined ? {} : { logprobs: toLogProbs(logProbs) }
      return { prompt_index: event.prompt, index: event.completion, delta: toDelta(event.piece), ...logprobs }
    }
    case 'result':
      return toResult(event.result, event.prompt, form)
    case 'finish':
      return { ...heading, usage: toUsage(event.usage) }
  }
}

async function count(
  request: FastifyRequest,
  reply: FastifyReply,
  options: MultilookOptions,
): Promise<MultilookInputTokensBody> {
  const { value: body } = await options.bodies.read(request, reply, multilookBody)
  const { models, conversations, shutdown } = options
  const caller = unmetered(request, reply, await namedModel(models, body.model))
  const signal = requestSignal(reply, shutdown)
  const { prompts, usage, contextTokens, exact } = await conversations.measureMultilook(
    toMultilookRequest(body, false),
    caller,
    signal,
  )
  return {
    object: 'chat.completion.multilook.input_tokens',
    input_tokens: usage.promptTokens,
    input_tokens_details: { cached_tokens: usage.cachedTokens, audio_tokens: usage.audioTokens },
    context_tokens: contextTokens,
    results: prompts.map((prompt, index) =>
      prompt.type === 'failure'
        ? { prompt_index: index, error: toPromptError(prompt.error, request) }
        : { prompt_index: index, input_tokens: prompt.promptTokens },
    ),
    estimated: !exact,
  }
}

function toMultilookRequest(body: MultilookRequestBody, streamed: boolean): MultilookRequest {
  return {
    ...toReplyOptions(body),
    streamed,
    context: body.context,
    prompts: body.prompts.map((prompt) => (typeof prompt === 'string' ? prompt : prompt.content)),
    n: body.n ?? 1,
  }
}

function toResult(result: PromptResult, promptIndex: number, { request, rated }: ResultForm): MultilookResultBody {
  if (result.type === 'failure') return { prompt_index: promptIndex, error: toPromptError(result.error, request) }
  return {
    prompt_index: promptIndex,
    completions: result.completions.map(({ message, logProbs, reason }, index) => ({
      index,
      message: toMessageBody(message),
      ...(rated ? { logprobs: toLogProbs(logProbs) } : {}),
      finish_reason: reason,
    })),
    usage: { completion_tokens: result.completionTokens },
  }
}

function toPromptError(cause: unknown, request: FastifyRequest): PromptErrorBody {
  const error = toApiError(cause)
  logServerError(error, request)
  const { message, type, code } = error
  return { message, type, ...(code === null ? {} : { code }) }
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
