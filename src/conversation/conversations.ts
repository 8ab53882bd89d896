import type { Compatibility } from '../config/compatibility.ts'
import type { ModelRegistry, ServedModel } from '../inference/catalog/registry.ts'
import type { PromptUsage } from '../inference/contract/generation.ts'
import type { PromptPart } from '../inference/contract/parts.ts'
import type { Branch, Work } from '../inference/contract/work.ts'
import { located, namedBy } from '../lib/errors.ts'
import type { Names } from '../lib/param.ts'
import type { MediaRequest } from '../media/media-request.ts'
import type { MediaTrace } from '../media/media-trace.ts'
import { checkChat, checkFocusAlone, holdsTools, readControls } from './capability-checks.ts'
import type { DecisionReply } from './decisions/decision-reply.ts'
import { decide } from './decisions.ts'
import { answerDetect, type DetectReply, imageUrlsOf } from './detect.ts'
import { boundFocusTool, type FocusParts, focusedReply, focusTool, imagesOf } from './focus.ts'
import { type MultilookMeasure, type MultilookParts, measureMultilook, startMultilook } from './multilook.ts'
import { ChatTemplate } from './prompt/chat-template.ts'
import { framesPerVideo, loadMedia, loadPicture, type MediaSource } from './prompt/media-parts.ts'
import { buildPrompt, type PromptSource, type PromptStyle, promptStyle } from './prompt/prompt.ts'
import { TemplateProcesses } from './prompt/template-processes.ts'
import { effortOf } from './prompt/thinking.ts'
import { type AskedTokens, MeasuredPrompt, outputBudget } from './prompt/token-budget.ts'
import { assetsOf, checkCompletions, sharedBeginning, type View, viewsOf } from './prompt/views.ts'
import type { CompletionParts } from './reply/completion-reader.ts'
import { dialectOf, freeGrounding, groundingIn, nothingIn, sceneOf } from './reply/grounding.ts'
import type { MultilookEvent } from './reply/multilook-reply.ts'
import { repliesInTurn, replyOrInstead } from './reply/replies-in-turn.ts'
import {
  assembleChoices,
  assembleReply,
  type ChoiceEvent,
  type ReplyEvent,
  released,
  totalPrompt,
} from './reply/reply.ts'
import { ReplySpec } from './reply/reply-spec.ts'
import { StopCutter } from './reply/stop-cutter.ts'
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
  /** Is told what goes wrong without being an error of a request. */
  readonly warn?: ((message: string) => void) | undefined
}

export interface Caller {
  readonly model: ServedModel
  readonly organisation: string
  /** Whether nobody waits for the reply: it may take long, because others come first. */
  readonly isBackground?: boolean
  /** Follows the media of the request; may be left out. */
  readonly trace?: MediaTrace | undefined
  /** Gets the keywords of the request's schemas that have no effect, before the engine gets the work; may be left out. */
  readonly onIgnored?: ((keywords: readonly string[]) => void) | undefined
}

/** What the prompt of a chat takes. */
export interface ChatMeasure extends Pick<PromptUsage, 'promptTokens' | 'imageTokens' | 'audioTokens'> {
  /** False for an estimate. */
  readonly exact: boolean
}

interface PreparedChat {
  /** Several where the model is asked about one picture after the other. Each is prepared when it is needed. */
  readonly views: readonly (() => PreparedView)[]
  /** What the model says of a picture where it finds nothing. */
  readonly nothing: string
  /** What is asked where the reply to the whole conversation calls no function, and does not say which picture it means. */
  readonly instead: (Pick<PreparedChat, 'views'> & { isNeeded(): boolean }) | null
  /** Null without the focus tool. */
  readonly focus: FocusMedia | null
}

interface PreparedView {
  readonly prompt: PromptSource
  readonly spec: ReplySpec
  /** What the focus tool may look at. */
  readonly images: FocusParts['images']
}

interface FocusMedia {
  readonly loading: MediaRequest
}

/** Seconds that a reply may take which nobody waits for. */
const BACKGROUND_SECONDS = 3_600

const NO_IMAGES: FocusParts['images'] = new Map()
type ReplyLimits = AskedTokens & Pick<ChatRequest, 'sampling' | 'streamed' | 'stops' | 'topLogProbs' | 'choices'>
const WITHOUT_CALLS: Pick<ChatRequest, 'tools' | 'toolUse'> = {
  tools: [],
  toolUse: { choice: 'none', parallel: false },
}
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
  readonly #templates = new TemplateProcesses()
  readonly #structures = new StructureChecker()
  readonly #warn: (message: string) => void

  /** @throws Error when a model's chat template cannot be used. */
  constructor(options: ConversationsOptions) {
    const { registry, media, chatBudgetSeconds = 120, multilookBudgetSeconds = 300 } = options
    this.#media = media
    this.#compatibility = options.compatibility ?? 'contract'
    this.#warn = options.warn ?? (() => {})
    this.#chatBudgetSeconds = chatBudgetSeconds
    this.#multilookBudgetSeconds = multilookBudgetSeconds
    this.addModels(registry.list())
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
  async startChat(request: ChatRequest, caller: Caller, signal: AbortSignal): Promise<AsyncIterable<ReplyEvent>> {
    return this.#started(request, caller, signal, async (chat, held, deadline) => {
      if (chat.focus !== null) {
        const { views, nothing, focus } = chat
        const cutter = new StopCutter(request.stops ?? [])
        const starts = views.map((view) => (maxTokens: number) => {
          const clampsTokens = request.maxTokens === null || request.clampsTokens
          const asked = { ...request, ...focus, cutter, maxTokens, clampsTokens }
          return this.#replyWithFocus(view(), asked, caller, deadline)
        })
        const maxTokens = request.maxTokens ?? caller.model.outputTokens
        const reply = await repliesInTurn(starts, { maxTokens, nothing, cutter })
        const heldImages = held.move()
        deadline.signal.addEventListener('abort', () => heldImages.dispose(), { once: true })
        if (deadline.signal.aborted) heldImages.dispose()
        return released(reply, deadline)
      }
      const { structure, maxTokens } = request
      const { nothing, instead } = chat
      const begun = await this.#reply(chat, request, caller, deadline)
      const most = maxTokens ?? caller.model.outputTokens
      const asked =
        instead === null
          ? begun
          : replyOrInstead(begun, most, instead.isNeeded, (left) => {
              const limits = { ...request, maxTokens: left, clampsTokens: true }
              return this.#reply({ views: instead.views, nothing }, limits, caller, deadline)
            })
      const reply = released(asked, deadline)
      return structure === null ? reply : this.#structures.checked(reply, structure, caller.organisation)
    })
  }

  /**
   * Starts `request.choices` replies to one chat, whose prompt is computed once. Otherwise as `startChat`.
   * @throws ApiError 400 with the focus tool, which looks at the images again for each reply.
   */
  async startChoices(request: ChatRequest, caller: Caller, signal: AbortSignal): Promise<AsyncIterable<ChoiceEvent>> {
    return this.#started(request, caller, signal, async (chat, _held, deadline) => {
      const { model, organisation } = caller
      const work = await this.#workOf(chat, request, caller, deadline)
      const generation = await model.engine.generate(work, deadline.signal)
      const completions = Array.from({ length: work.branches[0]!.n }, () => completionOf(chat, work))
      const assembled = assembleChoices({ generation, model, deadline, completions, stops: request.stops ?? [] })
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
      const chat = await this.#prepareChat(request, caller, held, deadline)
      const work = await this.#workOf(chat, request, caller, deadline)
      const { prompts, exact } = await caller.model.engine.measure(work, deadline.signal)
      return { ...totalPrompt(prompts), exact }
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
    const { messages, format, formatParam, thoughtBudget, focus } = readControls(request, placed, model)
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
    const tools = callable(request)
    // A structure constrains the whole reply, so it replaces the constraint for annotations in free text.
    const bound = structure === null ? null : constraintOf(structure)
    const dialect = format === null ? null : dialectOf(model.card)
    const nothing = dialect === null ? '' : nothingIn(dialect, sceneOf(messages, media))
    const whole: View = { messages, assets: assetsOf(messages), shown: null }
    const views =
      format === null || bound !== null
        ? [whole]
        : viewsOf(messages, format, { namesAssets: model.card.namesAssets, nothing })
    checkCompletions(views.length === 1 ? 1 : views.length * (request.choices ?? 1), formatParam)
    // Whether to call a function is asked once, about all pictures.
    const mayCall = views.length > 1 && tools.length > 0 && toolUse.choice !== 'none'
    let hasDropped = false
    const dropped = (count: number) => {
      hasDropped = true
      this.#dropped(count, model)
    }
    const prepare = (view: View, { tools, toolUse }: Pick<ChatRequest, 'tools' | 'toolUse'>): PreparedView => {
      const own = view.shown === null ? images : new Map([...images].filter(([asset]) => asset === view.shown))
      const promptTools = usesFocus ? [focusTool(own.size)] : toolUse.choice === 'none' ? [] : tools
      const prompt: PromptSource = {
        param: 'messages',
        messages: view.messages,
        media,
        instruction: format === null ? null : dialect!.instruction(format),
        demand: structure === null ? null : demandOf(structure, model.card),
        tools: promptTools,
        thinking: thoughtBudget !== null,
        effort: effortOf(request.reasoningEffort),
        replaysReasoning: usesFocus || tools.length > 0 || messages.some(({ message }) => holdsTools(message)),
      }
      const parts = { assets: view.assets, scene: sceneOf(view.messages, media, view), dropped }
      const free = format === null ? freeGrounding(parts) : groundingIn(format, dialect!, parts)
      const grounding = bound === null ? free : null
      const calls = usesFocus ? { tools: [boundFocusTool(own)], toolUse: ONE_CALL } : { tools, toolUse }
      return { prompt, spec: new ReplySpec({ bound, thoughtBudget, grounding, ...calls }, model), images: own }
    }
    const asked = { tools, toolUse }
    const prepared = views.map((view) => once(() => prepare(view, mayCall ? WITHOUT_CALLS : asked)))
    return {
      views: mayCall ? [once(() => prepare(whole, asked))] : prepared,
      nothing,
      instead: mayCall ? { views: prepared, isNeeded: () => hasDropped } : null,
      focus: usesFocus ? { loading } : null,
    }
  }

  #dropped(count: number, { id }: ServedModel): void {
    this.#warn(`Dropped ${count} annotations in which model '${id}' does not say which picture it means`)
  }

  /** A reply in which the model may zoom into regions of the images. Each focus call starts another round. */
  async #replyWithFocus(
    view: PreparedView,
    { loading, cutter, ...limits }: ReplyLimits & FocusMedia & { readonly cutter: StopCutter },
    caller: Caller,
    deadline: Deadline,
  ): Promise<AsyncIterable<ReplyEvent>> {
    const { model, organisation } = caller
    const { signal } = deadline
    const { prompt, images } = view
    const first = await this.#reply({ views: [() => view], nothing: '' }, limits, caller, deadline)
    return focusedReply(first, {
      prompt,
      images,
      isStopped: () => cutter.found !== null,
      maxTokens: limits.maxTokens ?? model.outputTokens,
      next: async (longer, left) => {
        const parts = await buildPrompt(longer, this.#styles.get(model.card)!)
        const measured = new MeasuredPrompt(parts, { model, organisation, signal })
        const room = model.contextTokens - (await measured.countTokens())
        const rest = { ...limits, maxTokens: Math.min(left, room) }
        const next = { views: [() => ({ ...view, prompt: longer })], nothing: '' }
        return room > 0 ? this.#reply(next, rest, caller, deadline) : null
      },
      zoom: async (image, region) => {
        const param = ['vision_config', 'internal_tools', 'focus']
        return loadPicture(image, { target: model.card.image!, region }, { media: loading, param, signal })
      },
    })
  }

  /** @throws ApiError when the engine cannot admit the prompt. */
  async #reply(
    chat: Pick<PreparedChat, 'views' | 'nothing'>,
    limits: ReplyLimits,
    caller: Caller,
    deadline: Deadline,
  ): Promise<AsyncGenerator<ReplyEvent, void, void>> {
    const { model } = caller
    const work = await this.#workOf(chat, limits, caller, deadline)
    const generation = await model.engine.generate(work, deadline.signal)
    return assembleReply({
      generation,
      model,
      deadline,
      completion: completionOf(chat, work),
      stops: limits.stops ?? [],
    })
  }

  async #workOf(
    { views }: Pick<PreparedChat, 'views'>,
    { sampling, streamed, stops = [], topLogProbs, choices = 1, ...limits }: ReplyLimits,
    { model, organisation, onIgnored }: Caller,
    { signal }: Deadline,
  ): Promise<Work> {
    const style = this.#styles.get(model.card)!
    const rated = topLogProbs === null ? {} : { topLogProbs }
    const prompts: PromptPart[][] = []
    const bounds: Omit<Branch, 'suffix'>[] = []
    // One after the other: a conversation that is too long is rejected before all views of it have been made.
    for (const view of views) {
      const { prompt, spec } = view()
      onIgnored?.(spec.ignoredKeywords)
      const parts = await buildPrompt(prompt, style)
      const measured = new MeasuredPrompt(parts, { model, organisation, signal })
      const maxTokens = await outputBudget([measured], limits, model, prompt.param)
      signal.throwIfAborted()
      prompts.push(parts)
      bounds.push({ param: prompt.param, n: choices, sampling, ...rated, ...spec.bounds(maxTokens) })
    }
    const prefix = sharedBeginning(prompts)
    const branches = bounds.map((bound, index) => ({ ...bound, suffix: prompts[index]!.slice(prefix.length) }))
    // With larger pieces, what follows a stop sequence would be computed, and what exceeds the limit of all branches.
    return { organisation, prefix, branches, whole: !streamed && stops.length === 0 && branches.length === 1 }
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
    const dropped = (count: number) => this.#dropped(count, caller.model)
    return await run(request, { ...caller, style, media: this.#media, held, dropped }, deadline)
  }

  #multilookDeadline(caller: Caller, signal: AbortSignal): Deadline {
    const advice = 'use fewer prompts, a lower n or a smaller max_completion_tokens'
    return new Deadline(secondsFor(caller, this.#multilookBudgetSeconds), signal, advice)
  }

  async close(): Promise<void> {
    await Promise.all([this.#structures.close(), this.#templates.close()])
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

/** One completion of a work, whose branches are views of one chat. */
function completionOf(
  { views, nothing }: Pick<PreparedChat, 'views' | 'nothing'>,
  { branches }: Work,
): CompletionParts {
  return {
    readers: views.map((view) => view().spec.createReader()),
    maxTokens: Math.max(...branches.map(({ maxTokens }) => maxTokens!)),
    nothing,
  }
}

function once<Value>(make: () => Value): () => Value {
  let made: { readonly value: Value } | null = null
  return () => {
    made ??= { value: make() }
    return made.value
  }
}

function secondsFor({ isBackground }: Caller, seconds: number): number {
  return isBackground ? Math.max(seconds, BACKGROUND_SECONDS) : seconds
}
