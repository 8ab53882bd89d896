import { randomUUID } from 'node:crypto'
import type { Compatibility } from '../config/compatibility.ts'
import type { ModelRegistry, ServedModel } from '../inference/catalog/registry.ts'
import { located, namedBy } from '../lib/errors/errors.ts'
import { type Names, namesOf, type Path } from '../lib/errors/param.ts'
import type { Call, Caller } from './call/call.ts'
import { type ChatMeasure, measureChat, startChat, startChoices } from './chat.ts'
import type { DecisionReply } from './decisions/decision-reply.ts'
import { decide } from './decisions.ts'
import { answerDetect, type DetectReply } from './detect.ts'
import { type DetectMeasure, measureDetect } from './detect-measure.ts'
import { exemplarUrlsOf, imageUrlsOf, trackUrlsOf } from './detecting/dialog.ts'
import { checkWrites, type EmbeddingReply, embed, rerank, turnsOf } from './embeddings.ts'
import { type MultilookMeasure, measureMultilook, startMultilook } from './multilook.ts'
import { type OcrReply, readPages } from './ocr.ts'
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
import type { DetectRequest, TrackRequest } from './request/detect-request.ts'
import type { EmbeddingRequest, RerankRequest } from './request/embedding-request.ts'
import { holdMedia, urlsOf } from './request/held-media.ts'
import type { MediaUrl } from './request/message.ts'
import type { MultilookRequest } from './request/multilook-request.ts'
import type { OcrRequest } from './request/ocr-request.ts'
import type { TextRequest } from './request/text-request.ts'
import { startTexts } from './texts.ts'
import { answerInTiles, isTiled } from './tiled-detect.ts'
import { answerTracks, measureTracks, type TrackReply } from './track.ts'

interface ConversationsOptions {
  readonly registry: ModelRegistry
  readonly media: MediaSource
  /** Time limit of a chat in seconds, from `startChat` to its last token. */
  readonly chatBudgetSeconds?: number | undefined
  readonly multilookBudgetSeconds?: number | undefined
  readonly compatibility?: Compatibility | undefined
  /** The secret that all servers share; by default one of this process. @throws ApiError 503 */
  readonly secret?: (() => Promise<string>) | undefined
  /** Receives warnings about problems that fail no request. */
  readonly warn?: ((message: string) => void) | undefined
}

/** How a request of any kind runs. */
interface Terms {
  readonly caller: Caller
  /** Fires when the client disconnects. */
  readonly signal: AbortSignal
  /** The media of the request. */
  readonly media: Iterable<MediaUrl>
  readonly seconds: number
  /** What a client can do to stay within the time. */
  readonly advice?: string
  /** Parameters that other rooms' errors know only by name. */
  readonly params?: readonly Path[]
  /** What the request calls the parameters that errors name. */
  readonly names?: Names | undefined
  /** Whether it asks for vectors or scores, and for no text. */
  readonly embeds?: boolean
}

/** Time limit in seconds of a reply that no client waits for, and of a document, which may have many pages. */
const BACKGROUND_SECONDS = 3_600
/** Engines know the parameter only by this name. */
const DETECT_NAMES = namesOf([[['logprobs'], ['config', 'confidence']]])
/** Shipped models find the texts of a page as they detect other things. */
const OCR_NAMES = namesOf([[['categories'], ['document']]])
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
  readonly #ownSecret = randomUUID()

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
   * Starts `request.choices` replies to one chat, whose prompt is computed once. Otherwise it works like `startChat`.
   * @throws ApiError 400 with the focus tool, which looks at the images again for each reply.
   */
  startChoices(request: ChatRequest, caller: Caller, signal: AbortSignal): Promise<AsyncIterable<ChoiceEvent>> {
    const chat = this.#withRules(request)
    return this.#started(this.#chatTerms(request, caller, signal), async (call) =>
      this.#structures.checked(await startChoices(chat, call), request.structure, caller.organisation),
    )
  }

  /**
   * Measures the prompt of a chat; with the focus tool, the prompt of the first round. Generates nothing.
   * @throws ApiError for every error of `startChat` that does not depend on other requests.
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

  /** Starts the completions of texts, numbered prompt by prompt. Otherwise it works like `startChat`. */
  startTexts(request: TextRequest, caller: Caller, signal: AbortSignal): Promise<AsyncIterable<ChoiceEvent>> {
    const terms = { caller, signal, media: [], seconds: this.#chatSeconds, params: [SCHEMA], names: request.names }
    return this.#started(terms, (call) => startTexts(request, call, this.#structures))
  }

  /**
   * Searches an image.
   * @throws ApiError for an invalid request, an engine failure or a timeout.
   */
  detect(request: DetectRequest, caller: Caller, signal: AbortSignal): Promise<DetectReply> {
    const answer = isTiled(request)
      ? (call: Call) => answerInTiles(request, call)
      : (call: Call) => answerDetect(request, call)
    return this.#finished(this.#detectTerms(request, caller, signal), answer)
  }

  /**
   * Measures the prompts of a search. Generates nothing.
   * @throws ApiError for every error of `detect` that does not depend on other requests.
   */
  measureDetect(request: DetectRequest, caller: Caller, signal: AbortSignal): Promise<DetectMeasure> {
    return this.#finished(this.#detectTerms(request, caller, signal), (call) => measureDetect(request, call))
  }

  #detectTerms(request: DetectRequest, caller: Caller, signal: AbortSignal): Terms {
    const media = imageUrlsOf(request).map(({ url }) => url)
    return { caller, signal, media, seconds: this.#chatSeconds, names: DETECT_NAMES }
  }

  /**
   * Tracks objects through the frames of a clip.
   * @throws ApiError for an invalid request, an engine failure or a timeout before the first frame is done.
   */
  track(request: TrackRequest, caller: Caller, signal: AbortSignal): Promise<TrackReply> {
    return this.#finished(this.#trackTerms(request, caller, signal), (call) => answerTracks(request, call))
  }

  /**
   * Measures the prompts of the searches of a clip. Generates nothing.
   * @throws ApiError for every error of `track` that does not depend on other requests.
   */
  measureTracks(request: TrackRequest, caller: Caller, signal: AbortSignal): Promise<DetectMeasure> {
    return this.#finished(this.#trackTerms(request, caller, signal), (call) => measureTracks(request, call))
  }

  #trackTerms(request: TrackRequest, caller: Caller, signal: AbortSignal): Terms {
    const media = [...exemplarUrlsOf(request), ...trackUrlsOf(request.media)].map(({ url }) => url)
    return { caller, signal, media, seconds: this.#chatSeconds, advice: 'use fewer frames' }
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
   * Measures the prompts of a multilook. Generates nothing.
   * @throws ApiError for every error of `startMultilook` that does not depend on other requests.
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
   * Answers all questions.
   * @throws ApiError for an invalid request, an engine failure or a timeout.
   */
  decide(request: DecisionRequest, caller: Caller, signal: AbortSignal): Promise<DecisionReply> {
    const media = urlsOf([...request.input.map(({ message }) => message), ...contentsOf(request)])
    const params = request.questions.map(({ param }) => param)
    const seconds = this.#multilookSeconds
    const terms = { caller, signal, media, seconds, advice: 'use fewer questions', params, names: request.names }
    return this.#finished(terms, (call) => decide(request, call))
  }

  /**
   * Reads the pages of a document.
   * @throws ApiError for an invalid request, an engine failure or a timeout.
   */
  ocr(request: OcrRequest, caller: Caller, signal: AbortSignal): Promise<OcrReply> {
    const media = 'url' in request.document ? [request.document.url] : []
    const terms = { caller, signal, media, seconds: BACKGROUND_SECONDS, advice: 'select fewer pages', names: OCR_NAMES }
    return this.#finished({ ...terms, params: [request.param] }, (call) => readPages(request, call))
  }

  /** Makes a vector of each input. @throws ApiError for an invalid request, an engine failure or a timeout. */
  embed(request: EmbeddingRequest, caller: Caller, signal: AbortSignal): Promise<EmbeddingReply> {
    return this.#embedded({ ...request, caller, signal }, request.inputs, (call) => embed(request, call))
  }

  /** Scores each document. @throws ApiError as `embed` does. */
  rerank(request: RerankRequest, caller: Caller, signal: AbortSignal): Promise<EmbeddingReply> {
    const { query, documents } = request
    const inputs = [{ content: query, param: ['query'] }, ...documents]
    return this.#embedded({ ...request, caller, signal }, inputs, (call) => rerank(request, call))
  }

  #embedded(
    { caller, signal, names }: Pick<Terms, 'caller' | 'signal' | 'names'>,
    inputs: EmbeddingRequest['inputs'],
    run: (call: Call) => Promise<EmbeddingReply>,
  ): Promise<EmbeddingReply> {
    const params = inputs.map(({ param }) => param)
    const media = urlsOf(turnsOf(inputs).map(({ message }) => message))
    const terms = { caller, signal, names, media, seconds: this.#multilookSeconds, advice: 'use fewer inputs', params }
    return this.#finished({ ...terms, embeds: true }, run)
  }

  async #finished<Result>(terms: Terms, run: (call: Call) => Promise<Result>): Promise<Result> {
    const deadline = deadlineOf(terms)
    try {
      return await this.#run(terms, deadline, run)
    } finally {
      deadline.release()
    }
  }

  /** Keeps the deadline until the events have ended. */
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
    const { model, organisation, trace, isTransient } = caller
    const { signal } = deadline
    if (!terms.embeds) checkWrites(model)
    using held = holdMedia(media)
    const call: Call = {
      ...caller,
      style: this.#styles.get(model.card)!,
      deadline,
      signal,
      media: held.use(this.#options.media.open(organisation, signal, { trace, isTransient })),
      held,
      secret: this.#options.secret ?? (async () => this.#ownSecret),
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

function deadlineOf({ caller: { priority }, signal, seconds, advice }: Terms): Deadline {
  return new Deadline(priority === 'background' ? Math.max(seconds, BACKGROUND_SECONDS) : seconds, signal, advice)
}

function named(error: unknown, { params = [], names }: Terms): unknown {
  return namedBy(located(error, params), names)
}

/** Passes events through, and releases the deadline when they end, fail or are abandoned. */
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
