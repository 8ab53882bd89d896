import type { Compatibility } from '../config/compatibility.ts'
import type { PromptUsage, Work } from '../inference/engine.ts'
import type { ModelRegistry, ServedModel } from '../inference/registry.ts'
import { located, namedBy } from '../lib/errors.ts'
import type { Names } from '../lib/param.ts'
import type { MediaRequest, MediaTrace } from '../media/index.ts'
import { checkChat, checkFocusAlone, holdsTools, readControls } from './capability-checks.ts'
import type { DecisionReply } from './decisions/decision-reply.ts'
import { decide } from './decisions.ts'
import { answerDetect, type DetectReply, imageUrlsOf } from './detect.ts'
import { boundFocusTool, type FocusParts, focusedReply, focusTool, imagesOf } from './focus.ts'
import { type MultilookMeasure, type MultilookParts, measureMultilook, startMultilook } from './multilook.ts'
import { ChatTemplate } from './prompt/chat-template.ts'
import { framesPerVideo, loadMedia, loadPicture, type MediaSource } from './prompt/media-parts.ts'
import { buildPrompt, type PromptSource, type PromptStyle, promptStyle } from './prompt/prompt.ts'
import { TemplateThreads } from './prompt/template-threads.ts'
import { type AskedTokens, MeasuredPrompt, outputBudget } from './prompt/token-budget.ts'
import { dialectOf, Grounding, sceneOf } from './reply/grounding.ts'
import type { MultilookEvent } from './reply/multilook-reply.ts'
import { assembleChoices, assembleReply, type ChoiceEvent, type ReplyEvent, released } from './reply/reply.ts'
import { ReplySpec } from './reply/reply-spec.ts'
import { constraintOf, demandOf, SCHEMA, StructureChecker } from './reply/structured-reply.ts'
import type { ChatRequest, ToolUse } from './request/chat-request.ts'
import { Deadline } from './request/deadline.ts'
import { contentsOf, type DecisionRequest } from './request/decision-request.ts'
import type { DetectRequest } from './request/detect-request.ts'
import { holdMedia, urlsOf } from './request/held-media.ts'
import { placeMessages } from './request/message.ts'
import type { MultilookRequest } from './request/multilook-request.ts'

export interface ConversationsOptions {
  readonly registry: ModelRegistry
  readonly media: MediaSource
  /** Time limit of a chat in seconds, from `startChat` to its last token. */
  readonly chatBudgetSeconds?: number | undefined
  readonly multilookBudgetSeconds?: number | undefined
  readonly compatibility?: Compatibility | undefined
}

export interface Caller {
  readonly model: ServedModel
  readonly organisation: string
  /** Whether nobody waits for the reply: it may take long, because others come first. */
  readonly isBackground?: boolean
  /** Shows the media of the request in its trace; absent where the request is not traced. */
  readonly trace?: MediaTrace | undefined
}

/** What the prompt of a chat takes. */
export interface ChatMeasure extends Pick<PromptUsage, 'promptTokens' | 'imageTokens' | 'audioTokens'> {
  /** False for an estimate. */
  readonly exact: boolean
}

interface PreparedChat {
  readonly prompt: PromptSource
  readonly spec: ReplySpec
  /** Null without the focus tool. */
  readonly focus: FocusMedia | null
}

interface FocusMedia extends Pick<FocusParts, 'images'> {
  readonly loading: MediaRequest
}

/** Seconds that a reply may take which nobody waits for. */
const BACKGROUND_SECONDS = 3_600

const NO_IMAGES: FocusParts['images'] = new Map()
type ReplyLimits = AskedTokens & Pick<ChatRequest, 'sampling' | 'streamed' | 'stops' | 'topLogProbs' | 'choices'>
const ONE_CALL: ToolUse = { choice: 'auto', parallel: false }

/** The tools in the prompt. A named function is the only one that the model may call, so it is the only one listed. */
function callable({ tools, toolUse: { choice } }: ChatRequest): ChatRequest['tools'] {
  return typeof choice === 'string' ? tools : tools.filter(({ name }) => name === choice.name)
}

/**
 * Turns requests into engine work, and engine events into replies. It releases the inline media of a request as soon as
 * the media has been decoded or the request has failed.
 */
export class Conversations {
  readonly #media: MediaSource
  readonly #chatBudgetSeconds: number
  readonly #multilookBudgetSeconds: number
  readonly #compatibility: Compatibility
  readonly #styles = new WeakMap<ServedModel['card'], PromptStyle>()
  readonly #templateThreads = new TemplateThreads()
  readonly #structures = new StructureChecker()

  /** @throws Error when a model's chat template cannot be used. */
  constructor(options: ConversationsOptions) {
    const { registry, media, chatBudgetSeconds = 120, multilookBudgetSeconds = 300 } = options
    this.#media = media
    this.#compatibility = options.compatibility ?? 'contract'
    this.#chatBudgetSeconds = chatBudgetSeconds
    this.#multilookBudgetSeconds = multilookBudgetSeconds
    this.addModels(registry.list())
  }

  /**
   * Makes models known before the first request for them.
   * @throws Error when a model's chat template cannot be used.
   */
  addModels(models: readonly ServedModel[]): void {
    const templates = new Map(
      models.map(({ engine }) => [engine, new ChatTemplate(engine.info, this.#templateThreads)]),
    )
    for (const model of models) {
      this.#styles.set(model.card, promptStyle(model, templates.get(model.engine)!))
    }
  }

  /**
   * Resolves when the engine has admitted the request. Every error that the request itself can cause is thrown before
   * that. The caller must iterate the reply or abort `signal`.
   */
  async startChat(request: ChatRequest, caller: Caller, signal: AbortSignal): Promise<AsyncIterable<ReplyEvent>> {
    return this.#started(request, caller, signal, async ({ prompt, spec, focus }, held, deadline) => {
      if (focus !== null) {
        const reply = await this.#replyWithFocus(prompt, spec, { ...request, ...focus }, caller, deadline)
        const heldImages = held.move()
        deadline.signal.addEventListener('abort', () => heldImages.dispose(), { once: true })
        if (deadline.signal.aborted) heldImages.dispose()
        return released(reply, deadline)
      }
      const reply = released(await this.#reply(prompt, spec, request, caller, deadline), deadline)
      const { structure } = request
      return structure === null ? reply : this.#structures.checked(reply, structure, caller.organisation)
    })
  }

  /**
   * Starts `request.choices` replies to one chat, whose prompt is computed once. Otherwise as `startChat`.
   * @throws ApiError 400 with the focus tool, which looks at the images again for each reply.
   */
  async startChoices(request: ChatRequest, caller: Caller, signal: AbortSignal): Promise<AsyncIterable<ChoiceEvent>> {
    return this.#started(request, caller, signal, async ({ prompt, spec }, _held, deadline) => {
      const { model, organisation } = caller
      const work = await this.#workOf(prompt, spec, request, caller, deadline)
      const generation = await model.engine.generate(work, deadline.signal)
      const readers = Array.from({ length: work.branches[0]!.n }, () => spec.createReader())
      const assembled = assembleChoices({ generation, model, deadline, readers, stops: request.stops ?? [] })
      const replies = released(assembled, deadline)
      const { structure } = request
      return structure === null ? replies : this.#structures.checkedChoices(replies, structure, organisation)
    })
  }

  /** Prepares a chat and starts what replies to it, which releases the deadline when it has ended. */
  async #started<Event>(
    request: ChatRequest,
    caller: Caller,
    signal: AbortSignal,
    start: (chat: PreparedChat, held: DisposableStack, deadline: Deadline) => Promise<AsyncIterable<Event>>,
  ): Promise<AsyncIterable<Event>> {
    using held = holdMedia(urlsOf(request.messages))
    const deadline = new Deadline(secondsFor(caller, this.#chatBudgetSeconds), signal)
    const { names } = request
    try {
      const replies = await start(await this.#prepareChat(request, caller, held, deadline), held, deadline)
      return names === undefined ? replies : named(replies, names)
    } catch (error) {
      deadline.release()
      throw namedBy(located(error, [SCHEMA]), names)
    }
  }

  /**
   * What the prompt of a chat takes; with the focus tool, that of the first round. Nothing is generated.
   * @throws ApiError for whatever `startChat` would reject the request for, except for what depends on other requests.
   */
  async measureChat(request: ChatRequest, caller: Caller, signal: AbortSignal): Promise<ChatMeasure> {
    using held = holdMedia(urlsOf(request.messages))
    const deadline = new Deadline(this.#chatBudgetSeconds, signal)
    try {
      const { prompt, spec } = await this.#prepareChat(request, caller, held, deadline)
      const work = await this.#workOf(prompt, spec, request, caller, deadline)
      const { prompts, exact } = await caller.model.engine.measure(work, deadline.signal)
      return { ...prompts[0]!, exact }
    } catch (error) {
      throw namedBy(located(error, [SCHEMA]), request.names)
    } finally {
      deadline.release()
    }
  }

  /** Checks a chat and loads its media. Disposes of the originals unless the focus tool may look at them again. */
  async #prepareChat(
    request: ChatRequest,
    { model, organisation, trace }: Caller,
    held: DisposableStack,
    deadline: Deadline,
  ): Promise<PreparedChat> {
    const placed = placeMessages(request.messages, 'messages')
    checkChat(request, placed, model, request.compatibility ?? this.#compatibility)
    const { messages, format, thoughtBudget, focus } = readControls(request, placed, model)
    if (focus !== null) checkFocusAlone(request, focus)

    const loading = held.use(this.#media.open(organisation, deadline.signal, trace))
    const media = await loadMedia(messages, {
      model,
      media: loading,
      withSound: request.vision.enableAudioInVideo === true,
      maxFrames: framesPerVideo(messages),
      signal: deadline.signal,
    })
    const { structure, toolUse } = request
    const images = focus !== null ? imagesOf(messages) : NO_IMAGES
    // Without an image there is no focus tool.
    const usesFocus = images.size > 0
    if (!usesFocus) held.dispose()
    const tools = usesFocus ? [focusTool(images.size)] : callable(request)
    // A structure constrains the whole reply, so it replaces the constraint for annotations in free text.
    const bound = structure === null ? null : constraintOf(structure)
    const prompt: PromptSource = {
      param: 'messages',
      messages,
      media,
      instruction: format === null ? null : dialectOf(model.card).instruction(format),
      demand: structure === null ? null : demandOf(structure, model.card),
      tools: usesFocus || toolUse.choice !== 'none' ? tools : [],
      thinking: thoughtBudget !== null,
      replaysReasoning: tools.length > 0 || messages.some(({ message }) => holdsTools(message)),
    }
    const grounding =
      format === null || bound ? null : new Grounding(format, dialectOf(model.card), sceneOf(messages, media))
    const calls = usesFocus ? { tools: [boundFocusTool(images)], toolUse: ONE_CALL } : { tools, toolUse }
    const spec = new ReplySpec({ bound, thoughtBudget, grounding, ...calls }, model)
    return { prompt, spec, focus: usesFocus ? { images, loading } : null }
  }

  /** A reply in which the model may zoom into regions of the images. Each focus call starts another round. */
  async #replyWithFocus(
    prompt: PromptSource,
    spec: ReplySpec,
    { images, loading, ...limits }: ReplyLimits & FocusMedia,
    caller: Caller,
    deadline: Deadline,
  ): Promise<AsyncIterable<ReplyEvent>> {
    const { model, organisation } = caller
    const { signal } = deadline
    const first = await this.#reply(prompt, spec, limits, caller, deadline)
    return focusedReply(first, {
      prompt,
      images,
      maxTokens: limits.maxTokens ?? model.outputTokens,
      next: async (longer, left) => {
        const parts = await buildPrompt(longer, this.#styles.get(model.card)!)
        const measured = new MeasuredPrompt(parts, { model, organisation, signal })
        const room = model.contextTokens - (await measured.countTokens())
        const rest = { ...limits, maxTokens: Math.min(left, room) }
        return room > 0 ? this.#reply(longer, spec, rest, caller, deadline) : null
      },
      zoom: async (image, region) => {
        const param = ['vision_config', 'internal_tools', 'focus']
        return loadPicture(image, { target: model.card.image!, region }, { media: loading, param, signal })
      },
    })
  }

  /** @throws ApiError when the engine cannot admit the prompt. */
  async #reply(
    prompt: PromptSource,
    spec: ReplySpec,
    limits: ReplyLimits,
    caller: Caller,
    deadline: Deadline,
  ): Promise<AsyncGenerator<ReplyEvent, void, void>> {
    const { model } = caller
    const work = await this.#workOf(prompt, spec, limits, caller, deadline)
    const generation = await model.engine.generate(work, deadline.signal)
    return assembleReply({ generation, model, deadline, reader: spec.createReader(), stops: limits.stops ?? [] })
  }

  async #workOf(
    prompt: PromptSource,
    spec: ReplySpec,
    { sampling, streamed, stops = [], topLogProbs, choices = 1, ...limits }: ReplyLimits,
    { model, organisation }: Caller,
    { signal }: Deadline,
  ): Promise<Work> {
    const prefix = await buildPrompt(prompt, this.#styles.get(model.card)!)
    const measured = new MeasuredPrompt(prefix, { model, organisation, signal })
    const maxTokens = await outputBudget([measured], limits, model, prompt.param)
    signal.throwIfAborted()
    const rated = topLogProbs === null ? {} : { topLogProbs }
    const branch = { param: prompt.param, suffix: [], n: choices, sampling, ...rated, ...spec.bounds(maxTokens) }
    // With larger pieces, what follows a stop sequence would be computed.
    return { organisation, prefix, branches: [branch], whole: !streamed && stops.length === 0 }
  }

  /**
   * Resolves when the image has been searched.
   * @throws ApiError for an invalid request, an engine failure or a timeout.
   */
  async detect(request: DetectRequest, caller: Caller, signal: AbortSignal): Promise<DetectReply> {
    const style = this.#styles.get(caller.model.card)!
    using held = holdMedia(imageUrlsOf(request).map(({ url }) => url))
    const deadline = new Deadline(secondsFor(caller, this.#chatBudgetSeconds), signal)
    try {
      return await answerDetect(request, { ...caller, style, media: this.#media, held }, deadline)
    } finally {
      deadline.release()
    }
  }

  /**
   * Resolves when the engine has admitted the prompts. The caller must iterate the events or abort `signal`.
   * @throws ApiError when the whole call fails; the first prompt's error when all prompts fail, which the events may throw
   * as well.
   */
  async startMultilook(
    request: MultilookRequest,
    caller: Caller,
    signal: AbortSignal,
  ): Promise<AsyncIterable<MultilookEvent>> {
    const deadline = this.#multilookDeadline(caller, signal)
    try {
      return released(await this.#multilook(startMultilook, request, caller, deadline), deadline)
    } catch (error) {
      deadline.release()
      throw error
    }
  }

  /**
   * What the prompts of a multilook take. Nothing is generated.
   * @throws ApiError for whatever `startMultilook` would reject the call for, except for what depends on other requests.
   */
  async measureMultilook(request: MultilookRequest, caller: Caller, signal: AbortSignal): Promise<MultilookMeasure> {
    const deadline = this.#multilookDeadline(caller, signal)
    try {
      return await this.#multilook(measureMultilook, request, caller, deadline)
    } finally {
      deadline.release()
    }
  }

  /**
   * Resolves when all questions are answered.
   * @throws ApiError for an invalid request, an engine failure or a timeout.
   */
  async decide(request: DecisionRequest, caller: Caller, signal: AbortSignal): Promise<DecisionReply> {
    const style = this.#styles.get(caller.model.card)!
    using held = holdMedia(urlsOf([...request.input.map(({ message }) => message), ...contentsOf(request)]))
    const deadline = new Deadline(secondsFor(caller, this.#multilookBudgetSeconds), signal, 'use fewer questions')
    const asked = request.questions.map(({ param }) => param)
    const told = (error: unknown) => namedBy(located(error, asked), request.names)
    try {
      const reply = await decide(request, { ...caller, style, media: this.#media, held }, deadline)
      const answers = reply.answers.map((answer) =>
        answer.type === 'none' ? { ...answer, error: told(answer.error) } : answer,
      )
      return { ...reply, answers }
    } catch (error) {
      throw told(error)
    } finally {
      deadline.release()
    }
  }

  async #multilook<Result>(
    run: (request: MultilookRequest, parts: MultilookParts, deadline: Deadline) => Promise<Result>,
    request: MultilookRequest,
    caller: Caller,
    deadline: Deadline,
  ): Promise<Result> {
    const style = this.#styles.get(caller.model.card)!
    using held = holdMedia(urlsOf([...request.context, ...request.prompts.map((content) => ({ content }))]))
    return await run(request, { ...caller, style, media: this.#media, held }, deadline)
  }

  #multilookDeadline(caller: Caller, signal: AbortSignal): Deadline {
    const advice = 'use fewer prompts, a lower n or a smaller max_completion_tokens'
    return new Deadline(secondsFor(caller, this.#multilookBudgetSeconds), signal, advice)
  }

  async close(): Promise<void> {
    await Promise.all([this.#structures.close(), this.#templateThreads.close()])
  }
}

/** Passes events through. An error among them is named as the request names its parameters. */
async function* named<Event>(events: AsyncIterable<Event>, names: Names): AsyncGenerator<Event, void, void> {
  try {
    yield* events
  } catch (error) {
    throw namedBy(error, names)
  }
}

function secondsFor({ isBackground }: Caller, seconds: number): number {
  return isBackground ? Math.max(seconds, BACKGROUND_SECONDS) : seconds
}
