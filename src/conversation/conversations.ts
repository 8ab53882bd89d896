import type { MediaRequest } from '../media/index.ts'
import type { ModelRegistry, ServedModel } from '../models/registry.ts'
import type { ChatRequest, ToolUse } from './chat-request.ts'
import { ChatTemplate } from './chat-template.ts'
import { Deadline } from './deadline.ts'
import { answerDetect, type DetectReply } from './detect.ts'
import type { DetectRequest } from './detect-request.ts'
import { boundFocusTool, type FocusParts, focusedReply, focusTool, picturesOf } from './focus.ts'
import { dialectOf, Grounding, sceneOf } from './grounding.ts'
import { framesPerVideo, loadMedia, loadPicture, type MediaSource } from './media.ts'
import { placeMessages } from './message.ts'
import { answerMultilook, type MultilookReply } from './multilook.ts'
import type { MultilookRequest } from './multilook-request.ts'
import { MeasuredPrompt, outputBudget } from './output-budget.ts'
import { buildPrompt, type PromptSource, type PromptStyle, promptStyle } from './prompt.ts'
import { assembleReply, type ReplyEvent, released } from './reply.ts'
import type { ReplyOptions } from './reply-options.ts'
import { ReplyPlan } from './reply-plan.ts'
import { constraintOf, demandOf, StructureChecker } from './structured-reply.ts'
import { checkChat, checkFocusAlone, holdsTools, readControls } from './support.ts'

export interface ConversationsOptions {
  readonly registry: ModelRegistry
  readonly media: MediaSource
  /** Seconds that a chat may take from its admission here to its last token. */
  readonly chatBudgetSeconds?: number | undefined
  readonly multilookBudgetSeconds?: number | undefined
}

export interface Caller {
  readonly model: ServedModel
  readonly organisation: string
}

const NO_PICTURES: FocusParts['pictures'] = new Map()
const ONE_CALL: ToolUse = { choice: 'auto', parallel: false }

/** Turns requests into work for engines and their events into replies. */
export class Conversations {
  readonly #media: MediaSource
  readonly #chatBudgetSeconds: number
  readonly #multilookBudgetSeconds: number
  /** By model id. */
  readonly #styles = new Map<string, PromptStyle>()
  readonly #structures = new StructureChecker()

  /** @throws Error when a model's chat template cannot be used. */
  constructor({ registry, media, chatBudgetSeconds = 120, multilookBudgetSeconds = 300 }: ConversationsOptions) {
    this.#media = media
    this.#chatBudgetSeconds = chatBudgetSeconds
    this.#multilookBudgetSeconds = multilookBudgetSeconds
    const templates = new Map(registry.list().map(({ engine }) => [engine, new ChatTemplate(engine.info)]))
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
    const placed = placeMessages(request.messages, 'messages')
    checkChat(request, placed, model)
    const { messages, format, thoughtBudget, focus } = readControls(request, placed, model)
    if (focus !== null) checkFocusAlone(request, focus)

    const deadline = new Deadline(this.#chatBudgetSeconds, signal)
    try {
      const loading = this.#media.open(caller.organisation, deadline.signal)
      const media = await loadMedia(messages, {
        model,
        media: loading,
        withSound: request.vision.enableAudioInVideo === true,
        maxFrames: framesPerVideo(messages),
        signal: deadline.signal,
      })
      const { structure, toolUse, maxTokens, sampling } = request
      const pictures = focus !== null ? picturesOf(messages) : NO_PICTURES
      // Where there is nothing to look at, the tool is not there.
      const looking = pictures.size > 0
      const tools = looking ? [focusTool(pictures.size)] : request.tools
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
        const plan = new ReplyPlan({ ...wish, ...bind }, model)
        const reply = await this.#lookingReply(prompt, plan, { ...request, pictures, loading }, caller, deadline)
        return released(reply, deadline)
      }
      const plan = new ReplyPlan({ ...wish, tools, toolUse }, model)
      const reply = released(await this.#reply(prompt, plan, { maxTokens, sampling }, caller, deadline), deadline)
      return structure === null ? reply : this.#structures.checked(reply, structure)
    } catch (error) {
      deadline.release()
      throw error
    }
  }

  /** A reply in which the model may look at regions of the pictures; each look is followed by another round. */
  async #lookingReply(
    prompt: PromptSource,
    plan: ReplyPlan,
    {
      maxTokens,
      sampling,
      pictures,
      loading,
    }: Pick<ReplyOptions, 'maxTokens' | 'sampling'> & Pick<FocusParts, 'pictures'> & { loading: MediaRequest },
    caller: Caller,
    deadline: Deadline,
  ): Promise<AsyncIterable<ReplyEvent>> {
    const { model } = caller
    const first = await this.#reply(prompt, plan, { maxTokens, sampling }, caller, deadline)
    return focusedReply(first, {
      prompt,
      pictures,
      maxTokens: maxTokens ?? model.outputTokens,
      next: async (longer, left) => {
        const measured = new MeasuredPrompt(buildPrompt(longer, this.#styles.get(model.id)!), model)
        const room = model.contextTokens - (await measured.countTokens())
        const limits = { maxTokens: Math.min(left, room), sampling }
        return room > 0 ? this.#reply(longer, plan, limits, caller, deadline) : null
      },
      look: async (picture, region) => {
        const { signal } = deadline
        const param = 'vision_config.internal_tools.focus'
        return loadPicture(picture, { target: model.card.image!, region }, { media: loading, param, signal })
      },
    })
  }

  /** @throws ApiError for everything that keeps the engine from admitting the prompt. */
  async #reply(
    prompt: PromptSource,
    plan: ReplyPlan,
    { maxTokens: asked, sampling }: Pick<ReplyOptions, 'maxTokens' | 'sampling'>,
    { model, organisation }: Caller,
    deadline: Deadline,
  ): Promise<AsyncGenerator<ReplyEvent, void, void>> {
    const prefix = buildPrompt(prompt, this.#styles.get(model.id)!)
    const maxTokens = await outputBudget([new MeasuredPrompt(prefix, model)], asked, model, prompt.param)
    deadline.signal.throwIfAborted()
    const branch = { param: prompt.param, suffix: [], n: 1, sampling, ...plan.bounds(maxTokens) }
    const generation = await model.engine.generate({ organisation, prefix, branches: [branch] }, deadline.signal)
    return assembleReply({ generation, model, deadline, reader: plan.createReader() })
  }

  /**
   * Resolves when the picture has been searched.
   * @throws ApiError
   */
  async detect(request: DetectRequest, caller: Caller, signal: AbortSignal): Promise<DetectReply> {
    const style = this.#styles.get(caller.model.id)!
    const deadline = new Deadline(this.#chatBudgetSeconds, signal)
    try {
      return await answerDetect(request, { ...caller, style, media: this.#media }, deadline)
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
    const deadline = new Deadline(
      this.#multilookBudgetSeconds,
      signal,
      'use fewer prompts, a lower n or a smaller max_completion_tokens',
    )
    try {
      return await answerMultilook(request, { ...caller, style, media: this.#media }, deadline)
    } finally {
      deadline.release()
    }
  }

  async close(): Promise<void> {
    await this.#structures.close()
  }
}
