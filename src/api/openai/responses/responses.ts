import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Caller } from '../../../conversation/conversations.ts'
import type { ReplyFinish } from '../../../conversation/reply/reply.ts'
import { newResponseId } from '../../../responses/response-id.ts'
import { principalOf } from '../../http/access/auth.ts'
import type { ReadBody } from '../../http/body/body-reader.ts'
import { requestSignal } from '../../http/connection/abort-signal.ts'
import { EventStream } from '../../http/connection/event-stream.ts'
import { noteError, toApiError } from '../../http/error-handler.ts'
import { namedModel } from '../../http/named-model.ts'
import { meter } from '../../http/record/metering.ts'
import { unmetered } from '../../http/record/unmetered.ts'
import { addEndpoint } from '../../http/routes.ts'
import type { ChatCompletionsOptions } from '../chat-completions.ts'
import type { InputTokensBody } from '../wire/input-tokens.ts'
import { HeldInput } from './held-input.ts'
import { begunResponse, endedResponse, failedResponse, toUsage } from './response-body.ts'
import { toChat } from './response-request.ts'
import { type SourceOptions, sourceOf } from './response-source.ts'
import { ResponseWriter } from './response-writer.ts'
import { addStoredResponses } from './stored-responses.ts'
import type { ResponseBody, ResponseEventBody } from './wire/response.ts'
import { type ResponseRequestBody, responseBody, responsePromptBody } from './wire/response-request.ts'

export interface ResponsesApiOptions extends ChatCompletionsOptions, SourceOptions {}

/** `/v1/responses` and what is below it. The contract has no such paths. */
export function addResponses(app: FastifyInstance, options: ResponsesApiOptions): void {
  addEndpoint(app, {
    url: '/v1/responses',
    bucket: 'chat',
    scope: 'inference',
    handlers: { POST: (request, reply) => respond(request, reply, options) },
  })
  addEndpoint(app, {
    url: '/v1/responses/input_tokens',
    bucket: 'chat',
    scope: 'inference',
    handlers: { POST: (request, reply) => count(request, reply, options) },
  })
  addStoredResponses(app, options)
}

async function respond(
  request: FastifyRequest,
  reply: FastifyReply,
  options: ResponsesApiOptions,
): Promise<ResponseBody | undefined> {
  const read = await options.bodies.read(request, reply, responseBody)
  const { value: body } = read
  const { models, conversations, responses, files, shutdown, keepAliveMs, compatibility } = options
  const model = await namedModel(models, body.model)
  const metered = await meter(options, request, reply, { endpoint: 'responses', model })
  const signal = requestSignal(reply, shutdown)
  const principal = principalOf(request)
  const source = await sourceOf(body, principal, options)
  const chat = toChat(read, { ...source, compatibility })
  const store = body.store !== false && responses.enabled
  const { rawParameters } = read
  const heading = { id: newResponseId(), createdAt: Math.floor(Date.now() / 1000), store, body, rawParameters }
  await using input = await HeldInput.hold(store ? source.own : [], principal.organisation, files)
  if (store) await files.checkStorage(principal, input.newBytes + mostOfResponse(read))
  const events = await conversations.startChat(chat, metered.caller, signal)
  // Only now, when the tools are known to fit the context: it shows them.
  const begun = begunResponse(heading)
  const writer = new ResponseWriter({ id: begun.id, annotated: mayAnnotate(metered.caller) })
  /** Ends the response. It is stored before the client is told. */
  const end = async (finish: ReplyFinish): Promise<ResponseBody> => {
    const usage = toUsage(finish.usage, metered.tokens.cachedTokens)
    const ended = endedResponse(begun, { reason: finish.reason, usage, output: writer.items })
    if (store) {
      await responses.keep(principal, {
        id: begun.id,
        chain: source.chain,
        held: input.take(),
        body: JSON.stringify(ended),
        input: (ids) => JSON.stringify(input.stored(begun.id, ids)),
      })
    }
    metered.finish(finish.reason)
    return ended
  }

  if (!body.stream) {
    for await (const event of events) {
      if (event.type !== 'finish') writer.push(event)
      else {
        writer.end(event)
        return await end(event)
      }
    }
    throw new Error('A reply ended without a finish event')
  }

  const stream = new NumberedEvents(new EventStream(reply, keepAliveMs))
  try {
    await stream.send({ type: 'response.created', response: begun })
    await stream.send({ type: 'response.in_progress', response: begun })
    for await (const event of events) {
      for (const written of event.type === 'finish' ? writer.end(event) : writer.push(event)) {
        // Most clients take more at once, and waiting would cost as much as the rest of a token.
        const full = stream.send(written)
        if (full !== null) await full
      }
      if (event.type !== 'finish') continue
      const response = await end(event)
      await stream.send({
        type: response.status === 'completed' ? 'response.completed' : 'response.incomplete',
        response,
      })
    }
  } catch (failure) {
    if (!reply.raw.destroyed) {
      const error = toApiError(failure)
      noteError(error, request)
      const { message, code, param, type } = error
      await stream.send({ type: 'error', code, message, param, error: { type, code, message, param } })
      await stream.send({ type: 'response.failed', response: failedResponse(begun, error, writer.items) })
    }
  } finally {
    stream.end()
  }
}

/** Characters of what a response repeats of its request, but for what is short. */
function mostOfResponse({ value: { instructions }, rawParameters }: ReadBody<ResponseRequestBody>): number {
  return rawParameters.reduce((sum, text) => sum + (text ?? '').length, (instructions ?? '').length)
}

/** An event stream whose events are numbered. */
class NumberedEvents {
  readonly #stream: EventStream
  #next = 0

  constructor(stream: EventStream) {
    this.#stream = stream
  }

  send({ type, ...fields }: ResponseEventBody): Promise<void> | null {
    return this.#stream.send(JSON.stringify({ type, sequence_number: this.#next++, ...fields }), type)
  }

  end(): void {
    this.#stream.send('[DONE]')
    this.#stream.end()
  }
}

/** Whether replies of a model may hold annotations. */
function mayAnnotate({ model }: Caller): boolean {
  return model.served.outputFormats.length > 0
}

/** `POST /v1/responses/input_tokens`: the prompt tokens of a response that is not generated. */
async function count(
  request: FastifyRequest,
  reply: FastifyReply,
  options: ResponsesApiOptions,
): Promise<InputTokensBody> {
  const read = await options.bodies.read(request, reply, responsePromptBody)
  const { value: body } = read
  const { models, conversations, compatibility, shutdown } = options
  const caller = unmetered(request, reply, await namedModel(models, body.model))
  const source = await sourceOf(body, principalOf(request), options)
  const chat = toChat(read, { ...source, compatibility })
  const measure = await conversations.measureChat(chat, caller, requestSignal(reply, shutdown))
  const { promptTokens, imageTokens, audioTokens, exact } = measure
  return {
    object: 'response.input_tokens',
    input_tokens: promptTokens,
    input_tokens_details: { image_tokens: imageTokens, audio_tokens: audioTokens },
    estimated: !exact,
  }
}
