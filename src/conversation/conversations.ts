import type { Engine } from '../inference/engine.ts'
import type { ModelRegistry, ServedModel } from '../models/registry.ts'
import type { ChatRequest } from './chat-request.ts'
import { ChatTemplate } from './chat-template.ts'
import { Deadline } from './deadline.ts'
import { answerDetect, type DetectReply, type ReplyWish } from './detect.ts'
import type { DetectRequest } from './detect-request.ts'
import { dialectOf, Grounding, sceneOf } from './grounding.ts'
import { type ImageSource, loadImages } from './images.ts'
import { placeMessages } from './message.ts'
import { answerMultilook, type MultilookReply } from './multilook.ts'
import type { MultilookRequest } from './multilook-request.ts'
import { MeasuredPrompt, outputBudget } from './output-budget.ts'
import { buildPrompt, type PromptSource } from './prompt.ts'
import { assembleReply, type ReplyEvent } from './reply.ts'
import { constraintOf, StructureChecker } from './structured-reply.ts'
import { checkChat, readControls } from './support.ts'

export interface ConversationsOptions {
  readonly registry: ModelRegistry
  readonly images: ImageSource
  /** Seconds that a chat may take from its admission here to its last token. */
  readonly chatBudgetSeconds?: number | undefined
  readonly multilookBudgetSeconds?: number | undefined
}

export interface Caller {
  readonly model: ServedModel
  readonly organisation: string
}

/** Turns requests into work for engines and their events into replies. */
export class Conversations {
  readonly #images: ImageSource
  readonly #chatBudgetSeconds: number
  readonly #multilookBudgetSeconds: number
  readonly #templates = new Map<Engine, ChatTemplate>()
  readonly #structures = new StructureChecker()

  /** @throws Error when a model's chat template cannot be used. */
  constructor({ registry, images, chatBudgetSeconds = 120, multilookBudgetSeconds = 300 }: ConversationsOptions) {
    this.#images = images
    this.#chatBudgetSeconds = chatBudgetSeconds
    this.#multilookBudgetSeconds = multilookBudgetSeconds
    for (const { engine } of registry.list()) {
      if (!this.#templates.has(engine)) this.#templates.set(engine, new ChatTemplate(engine.info))
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
    const { messages, format } = readControls(request, placed, model)

    const deadline = new Deadline(this.#chatBudgetSeconds, signal)
    try {
      const images = await loadImages(messages, model.card.image, this.#images, deadline.signal)
      const dialect = dialectOf(model.card)
      const instruction = format === null ? null : dialect.instruction(format)
      const { structure, maxTokens, sampling } = request
      // A structure that the client asks for says more than a format of annotations in free text.
      const grounding =
        format === null || structure !== null ? null : new Grounding(format, dialect, sceneOf(messages, images))
      const constraint = structure === null ? grounding?.constraint : constraintOf(structure)
      const prompt = { param: 'messages', messages, images, instruction }
      const reply = await this.#reply(prompt, { maxTokens, sampling, constraint }, caller, deadline)
      if (structure !== null) return this.#structures.checked(reply, structure)
      return grounding === null ? reply : grounding.translate(reply)
    } catch (error) {
      deadline.release()
      throw error
    }
  }

  /** @throws ApiError for everything that keeps the engine from admitting the prompt. */
  async #reply(
    prompt: PromptSource,
    { maxTokens, sampling, constraint }: ReplyWish,
    { model, organisation }: Caller,
    deadline: Deadline,
  ): Promise<AsyncGenerator<ReplyEvent, void, void>> {
    const prefix = buildPrompt(prompt, this.#templates.get(model.engine)!)
    const budget = await outputBudget([new MeasuredPrompt(prefix, model)], maxTokens, model, prompt.param)
    deadline.signal.throwIfAborted()
    const branch = {
      param: prompt.param,
      suffix: [],
      n: 1,
      maxTokens: budget,
      sampling,
      ...(constraint ? { constraint } : {}),
    }
    const generation = await model.engine.generate({ organisation, prefix, branches: [branch] }, deadline.signal)
    return assembleReply({ generation, model, deadline })
  }

  /**
   * Resolves when the picture has been searched.
   * @throws ApiError
   */
  async detect(request: DetectRequest, caller: Caller, signal: AbortSignal): Promise<DetectReply> {
    const deadline = new Deadline(this.#chatBudgetSeconds, signal)
    try {
      return await answerDetect(request, caller.model, {
        images: this.#images,
        signal: deadline.signal,
        reply: (prompt, wish) => this.#reply(prompt, wish, caller, deadline),
      })
    } finally {
      deadline.release()
    }
  }

  /**
   * Resolves when every prompt has its completions or its error.
   * @throws ApiError for what concerns the whole call, and the first prompt's error when all prompts have failed.
   */
  async multilook(request: MultilookRequest, caller: Caller, signal: AbortSignal): Promise<MultilookReply> {
    const template = this.#templates.get(caller.model.engine)!
    const deadline = new Deadline(
      this.#multilookBudgetSeconds,
      signal,
      'use fewer prompts, a lower n or a smaller max_completion_tokens',
    )
    try {
      return await answerMultilook(request, { ...caller, template, images: this.#images }, deadline)
    } finally {
      deadline.release()
    }
  }

  async close(): Promise<void> {
    await this.#structures.close()
  }
}
