import type { Branch, EngineEvent, FinishEvent, Generation, PromptUsage, TextEvent, Work } from '../inference/engine.ts'
import type { ServedModel } from '../inference/registry.ts'
import { ApiError, internalError, invalidRequest } from '../lib/errors.ts'
import { checkMedia, checkMultilook, readControls } from './capability-checks.ts'
import {
  framesPerVideo,
  type LoadedMedia,
  loadMedia,
  loadMediaGroups,
  type MediaOptions,
  type MediaSource,
} from './prompt/media-parts.ts'
import { buildSharedPrompt, contentOf, type PromptStyle, type SharedPrompt } from './prompt/prompt.ts'
import { type CountScope, contextExceeded, MeasuredPrompt, outputBudget } from './prompt/token-budget.ts'
import { dialectOf, Grounding, sceneOf } from './reply/grounding.ts'
import { type FinishReason, finishReason, MessageCollector, type ReplyMessage } from './reply/reply.ts'
import type { TextStage } from './reply/reply-piece.ts'
import { ReplySpec } from './reply/reply-spec.ts'
import type { Deadline } from './request/deadline.ts'
import { type PlacedMessage, placeMessages } from './request/message.ts'
import type { MultilookRequest } from './request/multilook-request.ts'

export interface MultilookReply {
  /** One result per prompt, in request order. At least one is an answer. */
  readonly results: readonly PromptResult[]
  readonly usage: MultilookUsage
}

export type PromptResult = PromptAnswer | PromptFailure

export interface PromptAnswer {
  readonly type: 'answer'
  readonly completions: readonly Completion[]
  readonly completionTokens: number
}

export interface PromptFailure {
  readonly type: 'failure'
  /** An ApiError, or an internal error. */
  readonly error: unknown
}

export interface Completion {
  readonly message: ReplyMessage
  readonly reason: FinishReason
}

export interface MultilookUsage {
  /** Tokens of the admitted prompts, each with the whole context. */
  readonly promptTokens: number
  /** The part of `promptTokens` that was reused: the context, for every admitted prompt but one. */
  readonly cachedTokens: number
  readonly audioTokens: number
  /** Tokens of the answered prompts' completions. */
  readonly completionTokens: number
}

export interface MultilookMeasure {
  /** Tokens of the context, which all prompts share. */
  readonly contextTokens: number
  /** One for each prompt, in request order. */
  readonly prompts: readonly (({ readonly type: 'measured' } & PromptUsage) | PromptFailure)[]
  /** What an answer would report. */
  readonly usage: Omit<MultilookUsage, 'completionTokens'>
  /** False for estimates. */
  readonly exact: boolean
}

export interface MultilookParts {
  readonly model: ServedModel
  readonly organisation: string
  readonly style: PromptStyle
  readonly media: MediaSource
  /** Disposed of when the media has been decoded. */
  readonly held: DisposableStack
}

/**
 * Answers every prompt over the shared context. An error in a prompt's own content, an engine error about it, and a
 * timeout fail that prompt alone. An error in the context fails the call.
 * @throws ApiError when the call fails; the first prompt's error when all prompts fail.
 */
export async function answerMultilook(
  request: MultilookRequest,
  parts: MultilookParts,
  deadline: Deadline,
): Promise<MultilookReply> {
  const begun = await begin(request, parts, deadline)
  const { engine } = parts.model
  const { running, answer } = await admit(begun, parts, (work) => engine.generate(work, deadline.signal))
  const [contextTokens] = await Promise.all([begun.prefix.countTokens(), collect(running, answer, deadline)])

  const { prompts } = begun
  const results = prompts.map((prompt) => prompt.result())
  if (!results.some((result) => result.type === 'answer')) throw firstError(prompts)
  const completionTokens = sum(results, (result) => (result.type === 'answer' ? result.completionTokens : 0))
  return { results, usage: { ...promptUsage(answer.prompts, contextTokens), completionTokens } }
}

/**
 * What the prompts take, each with the whole context. A prompt fails alone, as in an answer.
 * @throws ApiError when the call fails; the first prompt's error when all prompts fail.
 */
export async function measureMultilook(
  request: MultilookRequest,
  parts: MultilookParts,
  deadline: Deadline,
): Promise<MultilookMeasure> {
  const begun = await begin(request, parts, deadline)
  const { engine } = parts.model
  const { running, answer } = await admit(begun, parts, (work) => engine.measure(work, deadline.signal))
  const contextTokens = await begun.prefix.countTokens()
  return {
    contextTokens,
    prompts: begun.prompts.map((prompt) => {
      const usage = answer.prompts[running.indexOf(prompt)]
      return usage === undefined ? { type: 'failure', error: prompt.error } : { type: 'measured', ...usage }
    }),
    usage: promptUsage(answer.prompts, contextTokens),
    exact: answer.exact,
  }
}

interface Begun {
  readonly prompts: readonly PromptRun[]
  readonly shared: SharedPrompt
  /** The context, whose tokens are counted when they are asked for. */
  readonly prefix: MeasuredPrompt
}

function promptUsage(prompts: readonly PromptUsage[], contextTokens: number): MultilookMeasure['usage'] {
  return {
    promptTokens: sum(prompts, (prompt) => prompt.promptTokens),
    // Computed from this request alone: what the engine cached for earlier requests does not count.
    cachedTokens: sum(prompts.slice(1), ({ cachedTokens }) => Math.min(contextTokens, cachedTokens)),
    audioTokens: sum(prompts, (prompt) => prompt.audioTokens),
  }
}

/** Checks the call, loads its media, and makes a branch of every prompt. */
async function begin(
  request: MultilookRequest,
  { model, organisation, style, media: source, held }: MultilookParts,
  deadline: Deadline,
): Promise<Begun> {
  const context = placeMessages(request.context, 'context')
  const prompts = request.prompts.map((content, index) => new PromptRun(content, index))
  const placed = prompts.map((prompt) => prompt.placed)
  checkMultilook(request, context, placed, model)
  const { messages, format, focus, thoughtBudget } = readControls(request, context, model)
  if (focus !== null) throw invalidRequest('Multilook does not support the focus tool', focus)

  const options: MediaOptions = {
    model,
    media: held.use(source.open(organisation, deadline.signal)),
    withSound: request.vision.enableAudioInVideo === true,
    maxFrames: framesPerVideo([...context, ...placed]),
    signal: deadline.signal,
  }
  const media = await loadMedia(messages, options)
  const instruction = format === null ? null : dialectOf(model.card).instruction(format)
  const thinking = thoughtBudget !== null
  const prompt = {
    param: 'context',
    messages,
    media,
    instruction,
    demand: null,
    tools: [],
    thinking,
    replaysReasoning: false,
  }
  const shared = await buildSharedPrompt(prompt, style)
  const scope = { model, organisation, signal: deadline.signal }
  const prefix = new MeasuredPrompt(shared.prefix, scope)
  await checkContext(prefix, model)

  /** The reply spec of a prompt with its own media. */
  const specFor = (placed: PlacedMessage, own: LoadedMedia): ReplySpec => {
    const scene = sceneOf([...messages, placed], new Map([...media, ...own]))
    const grounding = format === null ? null : new Grounding(format, dialectOf(model.card), scene)
    return new ReplySpec({ bound: null, tools: [], toolUse: NO_TOOLS, thoughtBudget, grounding }, model)
  }
  await prepare(prompts, { request, specFor, shared, prefix, scope, options })
  held.dispose()
  return { prompts, shared, prefix }
}

/** @throws ApiError 400 for a context that leaves no room. Most are so short that they need not be counted for that. */
async function checkContext(prefix: MeasuredPrompt, model: ServedModel): Promise<void> {
  if (prefix.mostTokens < model.contextTokens) return
  const tokens = await prefix.countTokens()
  if (tokens >= model.contextTokens) throw contextExceeded(model, 'context', tokens)
}

const NO_TOOLS = { choice: 'none', parallel: false } as const

interface Preparation {
  readonly request: MultilookRequest
  readonly shared: SharedPrompt
  readonly prefix: MeasuredPrompt
  readonly scope: CountScope
  readonly options: MediaOptions
  specFor(placed: PlacedMessage, own: LoadedMedia): ReplySpec
}

/** Creates a branch for each prompt. Prompts with errors fail. */
async function prepare(
  prompts: readonly PromptRun[],
  { request, specFor, shared, prefix, scope, options }: Preparation,
): Promise<void> {
  const { model, signal } = options
  for (const prompt of prompts) await prompt.attempt(() => checkMedia(prompt.placed, model))
  const supported = prompts.filter((prompt) => !prompt.failed)
  const groups = supported.map((prompt) => [prompt.placed])
  const outcomes = await loadMediaGroups(groups, options)
  for (const [i, prompt] of supported.entries()) {
    const outcome = outcomes[i]!
    await prompt.attempt(async () => {
      if (outcome.status === 'rejected') throw outcome.reason
      const suffix = shared.suffix(contentOf(prompt.placed, outcome.value))
      const { param } = prompt.placed
      const pieces = [prefix, new MeasuredPrompt(suffix, scope)]
      const maxTokens = await outputBudget(pieces, request, model, param)
      const spec = specFor(prompt.placed, outcome.value)
      prompt.begin({ param, suffix, n: request.n, sampling: request.sampling, ...spec.bounds(maxTokens) }, spec)
    })
  }
  signal.throwIfAborted()
}

/**
 * Submits all branches to the engine. A prompt that an engine error names fails, and the others are submitted again.
 */
async function admit<Answer>(
  { prompts, shared: { prefix } }: Begun,
  { organisation }: MultilookParts,
  submit: (work: Work) => Promise<Answer>,
): Promise<{ running: readonly PromptRun[]; answer: Answer }> {
  for (;;) {
    const running = prompts.filter((prompt) => !prompt.failed)
    if (running.length === 0) throw firstError(prompts)
    try {
      const branches = running.map((prompt) => prompt.branch)
      return { running, answer: await submit({ organisation, prefix, branches, whole: true }) }
    } catch (error) {
      const named = error instanceof ApiError && running.find(({ placed }) => placed.param === error.param)
      if (!named) throw error
      named.fail(error)
    }
  }
}

/** Runs the generation to its end. If it fails, prompts that are already answered keep their answers. */
async function collect(running: readonly PromptRun[], { events }: Generation, deadline: Deadline): Promise<void> {
  let end: unknown
  try {
    for await (const event of events) running[event.branch]!.take(event)
    end = internalError(new Error('The engine ended a completion without a finish event'))
  } catch (error) {
    // The client has disconnected or the service is shutting down, so the answers are not needed.
    if (deadline.signal.aborted && !deadline.caused(error)) throw error
    end = error
  }
  for (const prompt of running) if (!prompt.answered) prompt.fail(end)
}

function firstError(prompts: readonly PromptRun[]): unknown {
  return prompts[0]!.error
}

function sum<Item>(items: readonly Item[], count: (item: Item) => number): number {
  return items.reduce((total, item) => total + count(item), 0)
}

/** A prompt that collects its completions or its error. */
class PromptRun {
  readonly placed: PlacedMessage
  #branch: Branch | null = null
  #completions: CompletionRun[] = []
  #failure: PromptFailure | null = null

  constructor(content: MultilookRequest['prompts'][number], index: number) {
    this.placed = { message: { role: 'user', content }, param: `prompts[${index}]` }
  }

  /** Sets the engine's work for this prompt. Called once, unless the prompt fails first. */
  begin(branch: Branch, spec: ReplySpec): void {
    this.#branch = branch
    this.#completions = Array.from({ length: branch.n }, () => new CompletionRun(spec.createReader()))
  }

  get branch(): Branch {
    return this.#branch!
  }

  get failed(): boolean {
    return this.#failure !== null
  }

  get error(): unknown {
    return this.#failure?.error
  }

  get answered(): boolean {
    return !this.failed && this.#completions.every(({ finish }) => finish !== null)
  }

  fail(error: unknown): void {
    this.#failure ??= { type: 'failure', error }
  }

  /** Runs a step; if it throws, the prompt fails. */
  async attempt(step: () => void | Promise<void>): Promise<void> {
    try {
      await step()
    } catch (error) {
      this.fail(error)
    }
  }

  take(event: EngineEvent): void {
    if (event.type === 'error') this.fail(event.error)
    else this.#completions[event.completion]!.take(event)
  }

  result(): PromptResult {
    if (this.#failure) return this.#failure
    return {
      type: 'answer',
      completions: this.#completions.map(({ message, finish }) => ({ message, reason: finishReason(finish!, 0) })),
      completionTokens: sum(this.#completions, ({ finish }) => finish!.completionTokens),
    }
  }
}

class CompletionRun {
  finish: FinishEvent | null = null
  readonly #reader: TextStage
  readonly #collector = new MessageCollector()

  constructor(reader: TextStage) {
    this.#reader = reader
  }

  get message(): ReplyMessage {
    return this.#collector.message
  }

  take(event: TextEvent | FinishEvent): void {
    if (event.type === 'finish') this.finish = event
    const pieces = event.type === 'text' ? this.#reader.push(event.text) : this.#reader.end(event.reason === 'length')
    for (const piece of pieces) this.#collector.add(piece)
  }
}
