import { randomUUID } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import type { MultilookMeasure } from '../../conversation/multilook.ts'
import type { MultilookEvent, MultilookUsage, PromptResult } from '../../conversation/reply/multilook-reply.ts'
import type { FinishReason } from '../../conversation/reply/reply.ts'
import type { MultilookRequest } from '../../conversation/request/multilook-request.ts'
import { prefersEvents } from '../http/accept.ts'
import type { ApiCall } from '../http/api-call.ts'
import type { ReadBody } from '../http/body/body-reader.ts'
import { addCalls } from '../http/client-call.ts'
import { logServerError, toApiError } from '../http/error-handler.ts'
import { admitUnmetered, bodiesOf, type Serving } from '../surfaces/admission.ts'
import { toLogProbs } from '../surfaces/openai/log-probs.ts'
import { toDelta, toMessageBody } from '../surfaces/openai/reply-message.ts'
import { toReplyOptions } from '../surfaces/openai/reply-options.ts'
import { type ChatSurface, type Frames, type ReplyWriter, serveChat } from '../surfaces/serve-chat.ts'
import type { MultilookInputTokensBody } from './wire/multilook-input-tokens.ts'
import { type MultilookRequestBody, multilookBody } from './wire/multilook-request.ts'
import type {
  MultilookCompletionBody,
  MultilookDeltaBody,
  MultilookEndBody,
  MultilookResultBody,
  PromptErrorBody,
} from './wire/multilook-response.ts'

interface ResultForm {
  /** The log gets the errors of its prompts. */
  readonly call: ApiCall
  /** Whether completions have log-probabilities. */
  readonly rated: boolean
}

/** The first fields of the whole response and of a stream's last event. */
type Heading = Pick<MultilookCompletionBody, 'id' | 'object' | 'model'>

const URL = '/v1/chat/completions/multilook'

/** `POST /v1/chat/completions/multilook`, and below it `/input_tokens`, which the contract does not have. */
export function addMultilook(app: FastifyInstance, serving: Serving): void {
  const surface = multilook(serving)
  addCalls(app, {
    bucket: 'multilook',
    answers: {
      [URL]: (call) => serveChat(call, serving, surface),
      [`${URL}/input_tokens`]: async (call) => {
        const { read, caller, signal } = await admitUnmetered(call, serving, surface)
        const asked = toMultilookRequest(read.value, false)
        return toInputTokens(await serving.conversations.measureMultilook(asked, caller, signal), call)
      },
    },
  })
}

export function multilook({ conversations }: Serving): ChatSurface<ReadBody<MultilookRequestBody>, MultilookEvent> {
  return {
    ...bodiesOf('multilook', multilookBody),
    async start({ read: { value: body }, call, caller, signal }) {
      const streamed = prefersEvents(call.headers.accept)
      const asked = toMultilookRequest(body, streamed)
      const events = await conversations.startMultilook(asked, caller, signal)
      const heading: Heading = {
        id: `mlcmpl-${randomUUID().replaceAll('-', '')}`,
        object: 'chat.completion.multilook',
        model: body.model,
      }
      return { events, streamed, writer: new MultilookWriter(heading, { call, rated: asked.topLogProbs !== null }) }
    },
  }
}

/** Writes the results of one multilook. */
class MultilookWriter implements ReplyWriter<MultilookEvent> {
  readonly #heading: Heading
  readonly #form: ResultForm
  readonly #results: PromptResult[] = []
  #usage: MultilookUsage | null = null

  constructor(heading: Heading, form: ResultForm) {
    this.#heading = heading
    this.#form = form
  }

  write(event: MultilookEvent, stream: Frames): string | null {
    if (event.type === 'piece') stream.send(JSON.stringify(toPiece(event)))
    if (event.type === 'result') stream.send(JSON.stringify(toResult(event.result, event.prompt, this.#form)))
    return this.collect(event)
  }

  end(stream: Frames): void {
    stream.send(JSON.stringify(this.#end()))
    stream.send('[DONE]')
  }

  collect(event: MultilookEvent): string | null {
    if (event.type === 'result') this.#results[event.prompt] = event.result
    if (event.type !== 'finish') return null
    this.#usage = event.usage
    return firstReason(this.#results)
  }

  body(): MultilookCompletionBody {
    const { usage, ...heading } = this.#end()
    return { ...heading, results: this.#results.map((result, index) => toResult(result, index, this.#form)), usage }
  }

  #end(): MultilookEndBody {
    return { ...this.#heading, usage: toUsage(this.#usage!) }
  }
}

/** The finish reason that the usage records keep for the call. */
function firstReason(results: readonly PromptResult[]): FinishReason {
  return results.find((result) => result.type === 'answer')?.completions[0]?.reason ?? 'stop'
}

function toPiece({ prompt, completion, piece }: Extract<MultilookEvent, { type: 'piece' }>): MultilookDeltaBody {
  const { logProbs } = piece
  const logprobs = logProbs === undefined ? {} : { logprobs: toLogProbs(logProbs) }
  return { prompt_index: prompt, index: completion, delta: toDelta(piece), ...logprobs }
}

function toInputTokens(
  { prompts, usage, contextTokens, exact }: MultilookMeasure,
  call: ApiCall,
): MultilookInputTokensBody {
  return {
    object: 'chat.completion.multilook.input_tokens',
    input_tokens: usage.promptTokens,
    input_tokens_details: { cached_tokens: usage.cachedTokens, audio_tokens: usage.audioTokens },
    context_tokens: contextTokens,
    results: prompts.map((prompt, index) =>
      prompt.type === 'failure'
        ? { prompt_index: index, error: toPromptError(prompt.error, call) }
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

function toResult(result: PromptResult, promptIndex: number, { call, rated }: ResultForm): MultilookResultBody {
  if (result.type === 'failure') return { prompt_index: promptIndex, error: toPromptError(result.error, call) }
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

function toPromptError(cause: unknown, call: ApiCall): PromptErrorBody {
  const error = toApiError(cause)
  logServerError(error, call)
  const { message, type, code } = error
  return { message, type, ...(code === null ? {} : { code }) }
}

/** Both details are always present; without audio, `audio_tokens` is 0. */
function toUsage(usage: MultilookUsage): MultilookCompletionBody['usage'] {
  const { promptTokens, completionTokens, cachedTokens, audioTokens } = usage
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens, audio_tokens: audioTokens },
  }
}
