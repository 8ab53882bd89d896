import type { Compatibility } from '../config/compatibility.ts'
import type { ModelRegistry, ServedModel } from '../inference/catalog/registry.ts'
import { located, namedBy } from '../lib/errors.ts'
import type { Names, Path } from '../lib/param.ts'
import type { Call, Caller } from './call.ts'
import { type ChatMeasure, measureChat, startChat, startChoices } from './chat.ts'
import type { DecisionReply } from './decisions/decision-reply.ts'
import { decide } from './decisions.ts'
import { answerDetect, type DetectReply, imageUrlsOf } from './detect.ts'
import { type MultilookMeasure, measureMultilook, startMultilook } from './multilook.ts'
import { ChatTemplate } from './prompt/chat-template.ts'
import type { MediaSource } from './prompt/media-parts.ts'
import { type PromptStyle, promptStyle } from './prompt/prompt.ts'
import { TemplateProcesses } from './prompt/template-processes.ts'
import type { MultilookEvent } from './reply/multilook-reply.ts'
import type { ChoiceEvent, ReplyEvent } from './reply/reply.ts'
import { SCHEMA, StructureChecker } from './reply/structure/structured-reply.ts'
import type { ChatRequest } from './request/chat-request.ts'
import { Deadline } from './request/deadline.ts'
import { contentsOf, type DecisionRequest } from './request/decision-request.ts'
import type { DetectRequest } from './request/detect-request.ts'
import { holdMedia, urlsOf } from './request/held-media.ts'
import type { MediaUrl } from './request/message.ts'
import type { MultilookRequest } from './request/multilook-request.ts'

interface ConversationsOptions {
  readonly registry: ModelRegistry
  readonly media: MediaSource
  /** Time limit of a chat in seconds, from `startChat` to its last token. */
  readonly chatBudgetSeconds?: number | undefined
  readonly multilookBudgetSeconds?: number | undefined
  readonly compatibility?: Compatibility | undefined
  /** Is told what goes wrong without being an error of a request. */
  readonly warn?: ((message: string) => void) | undefined
}

/** How a request is run, whatever it asks for. */
interface Terms {
  readonly caller: Caller
  /** Fires when the client has gone. */
  readonly signal: AbortSignal
  /** The media of the request. */
  readonly media: Iterable<MediaUrl>
  readonly seconds: number
  /** What a client can do to stay within the time. */
  readonly advice?: string
  /** Parameters that errors of other rooms know only by their names. */
  readonly params?: readonly Path[]
  /** What the request calls the parameters that errors name. */
  readonly names?: Names | undefined
}

/** Seconds that a reply may take which nobody waits for. */
const BACKGROUND_SECONDS = 3_600
const MULTILOOK_ADVICE = 'use fewer prompts, a lower n or a smaller max_completion_tokens'

/**
 * Turns requests into engine work, and engine events into replies. It releases the inline media of a request as soon as
 * the media has been decoded or the request has failed.
 */
export class Conversations {
  readonly #options: ConversationsOptions
  readonly #styles = new WeakMap<ServedModel['card'], PromptStyle>()
  readonly #templates = new TemplateProcesses()
  readonly #structures = new StructureChecker()

  /** @throws Error when a model's chat template cannot be used. */
  constructor(options: ConversationsOptions) {
    this.#options = options
    this.addModels(options.registry.list())
  }

  /**
   * Makes models known before the first request for them.
   * @throws Error when a model's chat template cannot be used.
   */
  addModels(models: readonly ServedModel[]): void {
    const templates = new Map(models.map(({ engine }) => [engine, new ChatTemplate(engine.info, this.#templates)]))
    for (const model of models) {
      this.#styles.set(model.card, promptStyle(model, templates.get(model.engine)!))
    }
  }

  /**
   * Resolves when the engine has admitted the request. Every error that the request itself can cause is thrown before
   * that. The caller must iterate the reply or abort `signal`.
   */
  startChat(request: ChatRequest, caller: Caller, signal: AbortSignal): Promise<AsyncIterable<ReplyEvent>> {
    const chat = this.#withRules(request)
    return this.#started(this.#chatTerms(request, caller, signal), async (call) =>
      this.#structures.checked(await startChat(chat, call), request.structure, caller.organisation),
    )
  }

  /**
   * Starts `request.choices` replies to one chat, whose prompt is computed once. Otherwise as `startChat`.
   * @throws ApiError 400 with the focus tool, which looks at the images again for each reply.
   */
  startChoices(request: ChatRequest, caller: Caller, signal: AbortSignal): Promise<AsyncIterable<ChoiceEvent>> {
    const chat = this.#withRules(request)
    return this.#started(this.#chatTerms(request, caller, signal), async (call) =>
      this.#structures.checked(await startChoices(chat, call), request.structure, caller.organisation),
    )
  }

  /**
   * What the prompt of a chat takes; with the focus tool, that of the first round. Nothing is generated.
   * @throws ApiError for whatever `startChat` would reject the request for, except for what depends on other requests.
   */
  measureChat(request: ChatRequest, caller: Caller, signal: AbortSignal): Promise<ChatMeasure> {
    const chat = this.#withRules(request)
    return this.#finished(this.#chatTerms(request, caller, signal), (call) => measureChat(chat, call))
  }

  #withRules(request: ChatRequest): ChatRequest {
    return { ...request, compatibility: request.compatibility ?? this.#options.compatibility ?? 'contract' }
  }

  #chatTerms({ messages, names }: ChatRequest, caller: Caller, signal: AbortSignal): Terms {
    return { caller, signal, media: urlsOf(messages), seconds: this.#chatSeconds, params: [SCHEMA], names }
  }

  get #chatSeconds(): number {
    return this.#options.chatBudgetSeconds ?? 120
  }

  /**
   * Resolves when the image has been searched.
   * @throws ApiError for an invalid request, an engine failure or a timeout.
   */
  detect(request: DetectRequest, caller: Caller, signal: AbortSignal): Promise<DetectReply> {
    const media = imageUrlsOf(request).map(({ url }) => url)
    return this.#finished({ caller, signal, media, seconds: this.#chatSeconds }, (call) => answerDetect(request, call))
  }

  /**
   * Resolves when the engine has admitted the prompts. The caller must iterate the events or abort `signal`.
   * @throws ApiError when the whole call fails; the first prompt's error when all prompts fail, which the events may throw
   * as well.
   */
  startMultilook(
    request: MultilookRequest,
    caller: Caller,
    signal: AbortSignal,
  ): Promise<AsyncIterable<MultilookEvent>> {
    return this.#started(this.#multilookTerms(request, caller, signal), (call) => startMultilook(request, call))
  }

  /**
   * What the prompts of a multilook take. Nothing is generated.
   * @throws ApiError for whatever `startMultilook` would reject the call for, except for what depends on other requests.
   */
  measureMultilook(request: MultilookRequest, caller: Caller, signal: AbortSignal): Promise<MultilookMeasure> {
    return this.#finished(this.#multilookTerms(request, caller, signal), (call) => measureMultilook(request, call))
  }

  #multilookTerms({ context, prompts }: MultilookRequest, caller: Caller, signal: AbortSignal): Terms {
    const media = urlsOf([...context, ...prompts.map((content) => ({ content }))])
    return { caller, signal, media, seconds: this.#multilookSeconds, advice: MULTILOOK_ADVICE }
  }

  get #multilookSeconds(): number {
    return this.#options.multilookBudgetSeconds ?? 300
  }

  /**
   * Resolves when all questions are answered.
   * @throws ApiError for an invalid request, an engine failure or a timeout.
   */
  decide(request: DecisionRequest, caller: Caller, signal: AbortSignal): Promise<DecisionReply> {
    const media = urlsOf([...request.input.map(({ message }) => message), ...contentsOf(request)])
    const params = request.questions.map(({ param }) => param)
    const seconds = this.#multilookSeconds
    const terms = { caller, signal, media, seconds, advice: 'use fewer questions', params, names: request.names }
    return this.#finished(terms, (call) => decide(request, call))
  }

  async #finished<Result>(terms: Terms, run: (call: Call) => Promise<Result>): Promise<Result> {
    const deadline = deadlineOf(terms)
    try {
      return await this.#run(terms, deadline, run)
    } finally {
      deadline.release()
    }
  }

  /** The deadline goes on until the events have ended. */
  async #started<Event>(
    terms: Terms,
    start: (call: Call) => Promise<AsyncIterable<Event>>,
  ): Promise<AsyncIterable<Event>> {
    const deadline = deadlineOf(terms)
    try {
      return released(await this.#run(terms, deadline, start), deadline, terms)
    } catch (error) {
      deadline.release()
      throw error
    }
  }

  async #run<Result>(terms: Terms, deadline: Deadline, run: (call: Call) => Promise<Result>): Promise<Result> {
    const { caller, media } = terms
    const { model, organisation, trace } = caller
    const { signal } = deadline
    using held = holdMedia(media)
    const call: Call = {
      ...caller,
      style: this.#styles.get(model.card)!,
      deadline,
      signal,
      media: held.use(this.#options.media.open(organisation, signal, trace)),
      held,
      dropped: (count) =>
        this.#options.warn?.(
          `Dropped ${count} annotations in which model '${model.id}' does not say which picture it means`,
        ),
      named: (error) => named(error, terms),
    }
    try {
      return await run(call)
    } catch (error) {
      throw named(error, terms)
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.#structures.close(), this.#templates.close()])
  }
}

function deadlineOf({ caller: { isBackground }, signal, seconds, advice }: Terms): Deadline {
  return new Deadline(isBackground ? Math.max(seconds, BACKGROUND_SECONDS) : seconds, signal, advice)
}

function named(error: unknown, { params = [], names }: Terms): unknown {
  return namedBy(located(error, params), names)
}

/** Passes events through, and releases the deadline when they end, however they end. */
async function* released<Event>(
  events: AsyncIterable<Event>,
  deadline: Deadline,
  terms: Terms,
): AsyncGenerator<Event, void, void> {
  try {
    yield* events
  } catch (error) {
    throw named(error, terms)
  } finally {
    deadline.release()
  }
}
