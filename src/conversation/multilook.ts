import type { ServedModel } from '../inference/catalog/registry.ts'
import type { Generation, PromptUsage } from '../inference/contract/generation.ts'
import type { Branch, Work } from '../inference/contract/work.ts'
import { ApiError, internalError, invalidRequest } from '../lib/errors.ts'
import { nameOf, type Param } from '../lib/param.ts'
import type { MediaTrace } from '../media/media-trace.ts'
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
import { effortOf } from './prompt/thinking.ts'
import { type CountScope, contextExceeded, MeasuredPrompt, outputBudget } from './prompt/token-budget.ts'
import { assetsOf, checkCompletions, sharedBeginning, type View, viewsOf } from './prompt/views.ts'
import { PromptRun } from './prompt-run.ts'
import { dialectOf, freeGrounding, groundingIn, nothingIn, sceneOf } from './reply/grounding.ts'
import type { MultilookEvent, MultilookUsage, PromptFailure } from './reply/multilook-reply.ts'
import { totalPrompt } from './reply/reply.ts'
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
  /** Receives the number of a reply's annotations that were dropped. */
  dropped(count: number): void
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
  const sharedTokens = await begun.prefix.countTokens()
  return {
    contextTokens: await begun.context.countTokens(),
    prompts: begun.prompts.map((prompt) => {
      const own = answer.prompts.filter((_, index) => running[index]!.prompt === prompt)
      return own.length === 0 ? { type: 'failure', error: prompt.error } : { type: 'measured', ...totalPrompt(own) }
    }),
    usage: promptUsage(answer.prompts, sharedTokens),
    exact: answer.exact,
  }
}

interface Begun {
  readonly prompts: readonly PromptRun[]
  /** The context, whose tokens are counted when they are asked for. */
  readonly context: MeasuredPrompt
  /** What the branches share: the context, or what all views of it begin with. */
  readonly prefix: MeasuredPrompt
}

function promptUsage(prompts: readonly PromptUsage[], sharedTokens: number): MultilookMeasure['usage'] {
  return {
    promptTokens: sum(prompts, (prompt) => prompt.promptTokens),
    // Computed from this request alone: what the engine cached for earlier requests does not count.
    cachedTokens: sum(prompts.slice(1), ({ cachedTokens }) => Math.min(sharedTokens, cachedTokens)),
    audioTokens: sum(prompts, (prompt) => prompt.audioTokens),
  }
}

/** Checks the call, loads its media, and makes a branch of every prompt. */
async function begin(
  request: MultilookRequest,
  { model, organisation, style, media: source, trace, held, dropped }: MultilookParts,
  deadline: Deadline,
): Promise<Begun> {
  const context = placeMessages(request.context, 'context')
  const prompts = request.prompts.map((content, index) => new PromptRun(content, index))
  const placed = prompts.map((prompt) => prompt.placed)
  checkMultilook(request, context, placed, model)
  const { messages, format, formatParam, focus, thoughtBudget } = readControls(request, context, model)
  if (focus !== null) throw invalidRequest('Multilook does not support the focus tool', focus)

  const options: MediaOptions = {
    model,
    media: held.use(source.open(organisation, deadline.signal, trace)),
    withSound: request.vision.enableAudioInVideo === true,
    maxFrames: framesPerVideo([...context, ...placed]),
    signal: deadline.signal,
  }
  const media = await loadMedia(messages, options)
  const dialect = format === null ? null : dialectOf(model.card)
  const instruction = format === null ? null : dialect!.instruction(format)
  const thinking = thoughtBudget !== null
  const promptOf = (messages: readonly PlacedMessage[]) => {
    const effort = effortOf(request.reasoningEffort)
    const rest = { media, instruction, demand: null, tools: [], thinking, effort, replaysReasoning: false }
    return buildSharedPrompt({ param: 'context', messages, ...rest }, style)
  }
  const scope = { model, organisation, signal: deadline.signal }
  const whole = await promptOf(messages)
  const wholeContext = new MeasuredPrompt(whole.prefix, scope)
  await checkContext(wholeContext, model)

  const nothing = dialect === null ? '' : nothingIn(dialect, sceneOf(messages, media))
  const { namesAssets } = model.card
  /** The prompt's views, each with the whole conversation. */
  const viewsFor = (placed: PlacedMessage): View[] => {
    const all = [...messages, placed]
    if (format === null) return [{ messages: all, assets: assetsOf(all), shown: null }]
    return viewsOf(all, format, { namesAssets, nothing })
  }
  const contextAssets = assetsOf(messages).count
  const shownContexts = new Map<number | null, Promise<SharedPrompt>>([[null, Promise.resolve(whole)]])
  /** The context as a view shows it. Views of prompts' own media show none of its. */
  const contextOf = ({ messages, shown, choices }: View): Promise<SharedPrompt> => {
    const key = choices !== undefined ? NAMED : shown === null ? null : Math.min(shown, contextAssets)
    let context = shownContexts.get(key)
    if (context === undefined) {
      context = promptOf(messages.slice(0, -1))
      shownContexts.set(key, context)
    }
    return context
  }
  /** The reply spec of a view. */
  const specFor = (view: View, own: LoadedMedia): ReplySpec => {
    const scene = sceneOf(view.messages, new Map([...media, ...own]), view)
    const parts = { assets: view.assets, scene, dropped }
    const grounding = format === null ? freeGrounding(parts) : groundingIn(format, dialect!, parts)
    return new ReplySpec({ bound: null, tools: [], toolUse: NO_TOOLS, thoughtBudget, grounding }, model)
  }
  const prefix = await prepare(prompts, {
    request,
    viewsFor,
    contextOf,
    specFor,
    nothing,
    formatParam,
    context: wholeContext,
    scope,
    options,
  })
  held.dispose()
  return { prompts, context: wholeContext, prefix }
}

/** Stands for the context in which earlier annotations have indices. */
const NAMED = -1

/** @throws ApiError 400 for a context that leaves no room. Most are so short that they need not be counted for that. */
async function checkContext(prefix: MeasuredPrompt, model: ServedModel): Promise<void> {
  if (prefix.mostTokens < model.contextTokens) return
  const tokens = await prefix.countTokens()
  if (tokens >= model.contextTokens) throw contextExceeded(model, 'context', tokens)
}

const NO_TOOLS = { choice: 'none', parallel: false } as const

interface Preparation {
  readonly request: MultilookRequest
  readonly nothing: string
  readonly formatParam: Param
  readonly context: MeasuredPrompt
  readonly scope: CountScope
  readonly options: MediaOptions
  viewsFor(placed: PlacedMessage): View[]
  contextOf(view: View): Promise<SharedPrompt>
  specFor(view: View, own: LoadedMedia): ReplySpec
}

/**
 * Creates the branches of each prompt: one for each view. Prompts with errors fail.
 * @returns what the branches share.
 */
async function prepare(
  prompts: readonly PromptRun[],
  { request, viewsFor, contextOf, specFor, nothing, formatParam, context, scope, options }: Preparation,
): Promise<MeasuredPrompt> {
  const { model, signal } = options
  for (const prompt of prompts) await prompt.attempt(() => checkMedia(prompt.placed, model))
  const supported = prompts.filter((prompt) => !prompt.failed)
  const groups = supported.map((prompt) => [prompt.placed])
  const outcomes = await loadMediaGroups(groups, options)
  const views = supported.map(({ placed }) => viewsFor(placed))
  const count = views.reduce((sum, own) => sum + (own.length === 1 ? 0 : own.length), 0)
  checkCompletions(count * request.n, formatParam)
  const contexts = await Promise.all(views.flat().map(contextOf))
  const parts = sharedBeginning(contexts.length === 0 ? [context.parts] : contexts.map(({ prefix }) => prefix))
  const prefix = parts.length === context.parts.length ? context : new MeasuredPrompt(parts, scope)
  for (const [i, prompt] of supported.entries()) {
    const outcome = outcomes[i]!
    await prompt.attempt(async () => {
      if (outcome.status === 'rejected') throw outcome.reason
      const { param } = prompt.placed
      const branches: Branch[] = []
      const specs: ReplySpec[] = []
      for (const view of views[i]!) {
        const shown = await contextOf(view)
        const content = contentOf(view.messages.at(-1)!, outcome.value)
        const suffix = [...shown.prefix.slice(parts.length), ...shown.suffix(content)]
        const pieces = [prefix, new MeasuredPrompt(suffix, scope)]
        const maxTokens = await outputBudget(pieces, request, model, param)
        const spec = specFor(view, outcome.value)
        const { n, sampling, topLogProbs } = request
        const rated = topLogProbs === null ? {} : { topLogProbs }
        branches.push({ param: nameOf(param)!, suffix, n, sampling, ...rated, ...spec.bounds(maxTokens) })
        specs.push(spec)
      }
      const maxTokens = Math.max(...branches.map((branch) => branch.maxTokens!))
      prompt.begin(branches, () => ({ readers: specs.map((spec) => spec.createReader()), maxTokens, nothing }))
    })
  }
  signal.throwIfAborted()
  return prefix
}

interface Submitted<Answer> {
  /** The branches that the engine has admitted, in its order. */
  readonly running: readonly RunningBranch[]
  readonly answer: Answer
}

interface RunningBranch {
  readonly prompt: PromptRun
  /** Counted from 0 among the branches of its prompt. */
  readonly branch: number
}

/**
 * Submits all branches to the engine. A prompt that an engine error names fails, and the others are submitted again.
 */
async function admit<Answer>(
  { prompts, prefix: { parts: prefix } }: Begun,
  { organisation }: MultilookParts,
  submit: (work: Work) => Promise<Answer>,
): Promise<Submitted<Answer>> {
  for (;;) {
    const admitted = prompts.filter((prompt) => !prompt.failed)
    if (admitted.length === 0) throw firstError(prompts)
    try {
      const branches = admitted.flatMap((prompt) => prompt.branches)
      const running = admitted.flatMap((prompt) => prompt.branches.map((_, branch) => ({ prompt, branch })))
      return { running, answer: await submit({ organisation, prefix, branches }) }
    } catch (error) {
      const named = error instanceof ApiError && admitted.find(({ placed }) => nameOf(placed.param) === error.param)
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
    if (result.type === 'answer') {
      completionTokens += result.completionTokens
      // Of several branches, some may have been computed further than they were read.
      for (const [branch, own] of running.entries()) {
        if (own.prompt !== prompt) continue
        for (const [completion, tokens] of prompt.tokensOf(own.branch).entries()) {
          generation.settle({ branch, completion }, tokens)
        }
      }
    }
    return { type: 'result', prompt: prompt.index, result }
  }
  for (const prompt of prompts) if (prompt.failed) yield resultOf(prompt)
  let end: unknown
  try {
    for await (const event of generation.events) {
      const { prompt, branch } = running[event.branch]!
      if (prompt.ended) continue
      for (const piece of prompt.take(branch, event)) yield piece
      if (prompt.ended) yield resultOf(prompt)
    }
    end = internalError(new Error('The engine ended a completion without a finish event'))
  } catch (error) {
    // The client has disconnected or the service is shutting down, so the answers are not needed.
    if (deadline.signal.aborted && !deadline.caused(error)) throw error
    end = error
  }
  for (const { prompt } of running) {
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
