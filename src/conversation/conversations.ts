import type { Compatibility } from '../config/compatibility.ts'
import type { ModelRegistry, ServedModel } from '../inference/registry.ts'
import type { MediaRequest } from '../media/index.ts'
import { checkChat, checkFocusAlone, holdsTools, readControls } from './capability-checks.ts'
import { answerDetect, type DetectReply, wantedPictures } from './detect.ts'
import { boundFocusTool, type FocusParts, focusedReply, focusTool, picturesOf } from './focus.ts'
import { answerMultilook, type MultilookReply } from './multilook.ts'
import { ChatTemplate } from './prompt/chat-template.ts'
import { framesPerVideo, loadMedia, loadPicture, type MediaSource } from './prompt/media-parts.ts'
import { buildPrompt, type PromptSource, type PromptStyle, promptStyle } from './prompt/prompt.ts'
import { MeasuredPrompt, outputBudget } from './prompt/token-budget.ts'
import { dialectOf, Grounding, sceneOf } from './reply/grounding.ts'
import { assembleReply, type ReplyEvent, released } from './reply/reply.ts'
import { ReplySpec } from './reply/reply-spec.ts'
import { constraintOf, demandOf, StructureChecker } from './reply/structured-reply.ts'
import type { ChatRequest, ToolUse } from './request/chat-request.ts'
import { Deadline } from './request/deadline.ts'
import type { DetectRequest } from './request/detect-request.ts'
import { addressesOf, holdMedia } from './request/held-media.ts'
import { placeMessages } from './request/message.ts'
import type { MultilookRequest } from './request/multilook-request.ts'
import type { ReplyOptions } from './request/reply-options.ts'

export interface ConversationsOptions {
  readonly registry: ModelRegistry
  readonly media: MediaSource
  /** Seconds that a chat may take from its admission here to its last token. */
  readonly chatBudgetSeconds?: number | undefined
  readonly multilookBudgetSeconds?: number | undefined
  readonly compatibility?: Compatibility | undefined
}

export interface Caller {
  readonly model: ServedModel
  readonly organisation: string
}

const NO_PICTURES: FocusParts['pictures'] = new Map()
type ReplyLimits = Pick<ReplyOptions, 'maxTokens' | 'maxTokensParam' | 'sampling'>
const ONE_CALL: ToolUse = { choice: 'auto', parallel: false }

import { TemplateThreads } from './prompt/template-threads.ts'

/** A function that is named is the only one that the model may call, and the only one that it is told of. */
function callable({ tools, toolUse: { choice } }: ChatRequest): ChatRequest['tools'] {
  return typeof choice === 'string' ? tools : tools.filter(({ name }) => name === choice.name)
}

/**
 * Turns requests into work for engines and their events into replies. It releases the inline media of each request as soon
 * as that has been decoded, or the request has failed.
 */
export class Conversations {
  readonly #media: MediaSource
  readonly #chatBudgetSeconds: number
  readonly #multilookBudgetSeconds: number
  readonly #compatibility: Compatibility
  /** By model id. */
  readonly #styles = new Map<string, PromptStyle>()
  readonly #templateThreads = new TemplateThreads()
  readonly #structures = new StructureChecker()

  /** @throws Error when a model's chat template cannot be used. */
  constructor(options: ConversationsOptions) {
    const { registry, media, chatBudgetSeconds = 120, multilookBudgetSeconds = 300 } = options
    this.#media = media
    this.#compatibility = options.compatibility ?? 'contract'
    this.#chatBudgetSeconds = chatBudgetSeconds
    this.#multilookBudgetSeconds = multilookBudgetSeconds
    const templates = new Map(
      registry.list().map(({ engine }) => [engine, new ChatTemplate(engine.info, this.#templateThreads)]),
    )
    for (const model of registry.list()) {
      const template = templates.get(model.engine)!
      // The focus tool is one of the server's own that every model with a syntax for tools may get.
      const usesTools = model.served.capabilities.includes('tool_calling') || model.card.toolSyntax !== undefined
      if (usesTools && template.toolForms === null) {
        throw new Error(`The chat template of '${model.id}' does not show the model any tools, which its card promises`)
      }
      this.#styles.set(model.id, promptStyle(model, template))
    }
  }

  /**
   * Resolves when the engine has admitted the request: every error that the request itself can cause comes before that.
   * The reply must be iterated, or `signal` aborted.
   */
  async startChat(request: ChatRequest, caller: Caller, signal: AbortSignal): Promise<AsyncIterable<ReplyEvent>> {
    const { model } = caller
    using held = holdMedia(addressesOf(request.messages))
    const placed = placeMessages(request.messages, 'messages')
    checkChat(request, placed, model, this.#compatibility)
    const { messages, format, thoughtBudget, focus } = readControls(request, placed, model)
    if (focus !== null) checkFocusAlone(request, focus)

    const deadline = new Deadline(this.#chatBudgetSeconds, signal)
    try {
      const loading = held.use(this.#media.open(caller.organisation, deadline.signal))
      const media = await loadMedia(messages, {
        model,
        media: loading,
        withSound: request.vision.enableAudioInVideo === true,
        maxFrames: framesPerVideo(messages),
        signal: deadline.signal,
      })
      const { structure, toolUse } = request
      const pictures = focus !== null ? picturesOf(messages) : NO_PICTURES
      // Where there is nothing to look at, the tool is not there.
      const looking = pictures.size > 0
      if (!looking) held.dispose()
      const tools = looking ? [focusTool(pictures.size)] : callable(request)
      const dialect = dialectOf(model.card)
      // A structure that the client asks for says more than a format of annotations in free text.
      const bound = structure === null ? null : constraintOf(structure)
      const prompt: PromptSource = {
        param: 'messages',
        messages,
        media,
        instruction: format === null ? null : dialect.instruction(format),
        demand: structure === null ? null : demandOf(structure, model.card),
        tools: looking || toolUse.choice !== 'none' ? tools : [],
        thinking: thoughtBudget !== null,
        replaysReasoning: tools.length > 0 || messages.some(({ message }) => holdsTools(message)),
      }
      const grounding = format === null || bound ? null : new Grounding(format, dialect, sceneOf(messages, media))
      const wish = { bound, thoughtBudget, grounding }
      if (looking) {
        const bind = { tools: [boundFocusTool(pictures)], toolUse: ONE_CALL }
        const plan = new ReplySpec({ ...wish, ...bind }, model)
        const reply = await this.#lookingReply(prompt, plan, { ...request, pictures, loading }, caller, deadline)
        const looked = held.move()
        deadline.signal.addEventListener('abort', () => looked.dispose(), { once: true })
        if (deadline.signal.aborted) looked.dispose()
        return released(reply, deadline)
      }
      const plan = new ReplySpec({ ...wish, tools, toolUse }, model)
      const reply = released(await this.#reply(prompt, plan, request, caller, deadline), deadline)
      return structure === null ? reply : this.#structures.checked(reply, structure, caller.organisation)
    } catch (error) {
      deadline.release()
      throw error
    }
  }

  /** A reply in which the model may look at regions of the pictures; each look is followed by another round. */
  async #lookingReply(
    prompt: PromptSource,
    plan: ReplySpec,
    { pictures, loading, ...limits }: ReplyLimits & Pick<FocusParts, 'pictures'> & { loading: MediaRequest },
    caller: Caller,
    deadline: Deadline,
  ): Promise<AsyncIterable<ReplyEvent>> {
    const { model, organisation } = caller
    const { signal } = deadline
    const first = await this.#reply(prompt, plan, limits, caller, deadline)
    return focusedReply(first, {
      prompt,
      pictures,
      maxTokens: limits.maxTokens ?? model.outputTokens,
      next: async (longer, left) => {
        const parts = await buildPrompt(longer, this.#styles.get(model.id)!)
        const measured = new MeasuredPrompt(parts, { model, organisation, signal })
        const room = model.contextTokens - (await measured.countTokens())
        const rest = { ...limits, maxTokens: Math.min(left, room) }
        return room > 0 ? this.#reply(longer, plan, rest, caller, deadline) : null
      },
      look: async (picture, region) => {
        const param = 'vision_config.internal_tools.focus'
        return loadPicture(picture, { target: model.card.image!, region }, { media: loading, param, signal })
      },
    })
  }

  /** @throws ApiError for everything that keeps the engine from admitting the prompt. */
  async #reply(
    prompt: PromptSource,
    plan: ReplySpec,
    { sampling, ...asked }: ReplyLimits,
    { model, organisation }: Caller,
    deadline: Deadline,
  ): Promise<AsyncGenerator<ReplyEvent, void, void>> {
    const prefix = await buildPrompt(prompt, this.#styles.get(model.id)!)
    const { signal } = deadline
    const measured = new MeasuredPrompt(prefix, { model, organisation, signal })
    const maxTokens = await outputBudget([measured], asked, model, prompt.param)
    signal.throwIfAborted()
    const branch = { param: prompt.param, suffix: [], n: 1, sampling, ...plan.bounds(maxTokens) }
    const generation = await model.engine.generate({ organisation, prefix, branches: [branch] }, signal)
    return assembleReply({ generation, model, deadline, reader: plan.createReader() })
  }

  /**
   * Resolves when the picture has been searched.
   * @throws ApiError
   */
  async detect(request: DetectRequest, caller: Caller, signal: AbortSignal): Promise<DetectReply> {
    const style = this.#styles.get(caller.model.id)!
    using held = holdMedia(wantedPictures(request).map(({ url }) => url))
    const deadline = new Deadline(this.#chatBudgetSeconds, signal)
    try {
      return await answerDetect(request, { ...caller, style, media: this.#media, held }, deadline)
    } finally {
      deadline.release()
    }
  }

  /**
   * Resolves when every prompt has its completions or its error.
   * @throws ApiError for what concerns the whole call, and the first prompt's error when all prompts have failed.
   */
  async multilook(request: MultilookRequest, caller: Caller, signal: AbortSignal): Promise<MultilookReply> {
    const style = this.#styles.get(caller.model.id)!
    using held = holdMedia(addressesOf([...request.context, ...request.prompts.map((content) => ({ content }))]))
    const deadline = new Deadline(
      this.#multilookBudgetSeconds,
      signal,
      'use fewer prompts, a lower n or a smaller max_completion_tokens',
    )
    try {
      return await answerMultilook(request, { ...caller, style, media: this.#media, held }, deadline)
    } finally {
      deadline.release()
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.#structures.close(), this.#templateThreads.close()])
  }
}
