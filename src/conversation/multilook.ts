import type { Generation, PromptUsage, Work } from '../inference/engine.ts'
import type { ServedModel } from '../inference/registry.ts'
import { ApiError, internalError, invalidRequest } from '../lib/errors.ts'
import { nameOf } from '../lib/param.ts'
import type { MediaTrace } from '../media/index.ts'
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
import { PromptRun } from './prompt-run.ts'
import { dialectOf, Grounding, sceneOf } from './reply/grounding.ts'
import type { MultilookEvent, MultilookUsage, PromptFailure } from './reply/multilook-reply.ts'
import { ReplySpec } from './reply/reply-spec.ts'
import type { Deadline } from './request/deadline.ts'
import { type PlacedMessage, placeMessages } from './request/message.ts'
import type { MultilookRequest } from './request/multilook-request.ts'

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
  /** Follows the media of the request; may be left out. */
  readonly trace?: MediaTrace | undefined
  /** Disposed of when the media has been decoded. */
  readonly held: DisposableStack
}

/**
 * Answers every prompt over the shared context. An error in a prompt's own content, an engine error about it, and a
 * timeout fail that prompt alone. An error in the context fails the call.
 * @returns when the engine has admitted the prompts. Iterate the events, or abort the deadline's signal; they throw the
 * first prompt's error when all prompts have failed.
 * @throws ApiError when the call fails, or all prompts fail, before the engine has admitted any.
 */
export async function startMultilook(
  request: MultilookRequest,
  parts: MultilookParts,
  deadline: Deadline,
): Promise<AsyncIterable<MultilookEvent>> {
  const begun = await begin(request, parts, deadline)
  const { engine } = parts.model
  const whole = !request.streamed
  const submitted = await admit(begun, parts, (work) => engine.generate({ ...work, whole }, deadline.signal))
  return answers(begun, submitted, deadline)
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
  { model, organisation, style, media: source, trace, held }: MultilookParts,
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
    media: held.use(source.open(organisation, deadline.signal, trace)),
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
      const { n, sampling, topLogProbs } = request
      const rated = topLogProbs === null ? {} : { topLogProbs }
      prompt.begin({ param: nameOf(param)!, suffix, n, sampling, ...rated, ...spec.bounds(maxTokens) }, spec)
    })
  }
  signal.throwIfAborted()
}

interface Submitted<Answer> {
  /** The prompts that the engine has admitted, in the order of its branches. */
  readonly running: readonly PromptRun[]
  readonly answer: Answer
}

/**
 * Submits all branches to the engine. A prompt that an engine error names fails, and the others are submitted again.
 */
async function admit<Answer>(
  { prompts, shared: { prefix } }: Begun,
  { organisation }: MultilookParts,
  submit: (work: Work) => Promise<Answer>,
): Promise<Submitted<Answer>> {
  for (;;) {
    const running = prompts.filter((prompt) => !prompt.failed)
    if (running.length === 0) throw firstError(prompts)
    try {
      const branches = running.map((prompt) => prompt.branch)
      return { running, answer: await submit({ organisation, prefix, branches }) }
    } catch (error) {
      const named = error instanceof ApiError && running.find(({ placed }) => nameOf(placed.param) === error.param)
      if (!named) throw error
      named.fail(error)
    }
  }
}

/**
 * Runs the generation to its end. A prompt's result follows its last piece at once. If the generation fails, prompts that
 * are already answered keep their answers.
 */
async function* answers(
  { prompts, prefix }: Begun,
  { running, answer: generation }: Submitted<Generation>,
  deadline: Deadline,
): AsyncGenerator<MultilookEvent, void, void> {
  // Counted while the engine computes. It is known to have failed when it is awaited.
  const counting = prefix.countTokens()
  counting.catch(() => {})
  let completionTokens = 0
  const resultOf = (prompt: PromptRun): MultilookEvent => {
    const result = prompt.result()
    if (result.type === 'answer') completionTokens += result.completionTokens
    return { type: 'result', prompt: prompt.index, result }
  }
  for (const prompt of prompts) if (prompt.failed) yield resultOf(prompt)
  let end: unknown
  try {
    for await (const event of generation.events) {
      const prompt = running[event.branch]!
      if (prompt.ended) continue
      for (const piece of prompt.take(event)) yield piece
      if (prompt.ended) yield resultOf(prompt)
    }
    end = internalError(new Error('The engine ended a completion without a finish event'))
  } catch (error) {
    // The client has disconnected or the service is shutting down, so the answers are not needed.
    if (deadline.signal.aborted && !deadline.caused(error)) throw error
    end = error
  }
  for (const prompt of running) {
    if (prompt.ended) continue
    prompt.fail(end)
    yield resultOf(prompt)
  }
  if (prompts.every((prompt) => prompt.failed)) throw firstError(prompts)
  yield { type: 'finish', usage: { ...promptUsage(generation.prompts, await counting), completionTokens } }
}

function firstError(prompts: readonly PromptRun[]): unknown {
  return prompts[0]!.error
}

function sum<Item>(items: readonly Item[], count: (item: Item) => number): number {
  return items.reduce((total, item) => total + count(item), 0)
}
