import type { Generation, PromptUsage } from '../inference/contract/generation.ts'
import type { Branch, Work } from '../inference/contract/work.ts'
import { ApiError, internalError, invalidRequest } from '../lib/errors/errors.ts'
import { nameOf } from '../lib/errors/param.ts'
import { getOrMake } from '../lib/get-or-make.ts'
import { sumOf } from '../lib/sum.ts'
import { branchOf, type Call } from './call/call.ts'
import { checkMedia, checkMediaCount, checkMultilook } from './call/capability-checks.ts'
import { readControls } from './controls.ts'
import { framesPerVideo, loadMedia, loadMediaGroups } from './prompt/media-parts.ts'
import { withPages } from './prompt/pages.ts'
import { buildSharedPrompt, contentOf, type SharedPrompt } from './prompt/prompt.ts'
import { effortOf } from './prompt/thinking.ts'
import { contextExceeded, MeasuredPrompt } from './prompt/token-budget.ts'
import { assetsOf, checkCompletions, sharedBeginning, type View } from './prompt/views.ts'
import { PromptRun } from './prompt-run.ts'
import { annotationsOf } from './reply/grounding.ts'
import type { MultilookEvent, MultilookUsage, PromptFailure } from './reply/multilook-reply.ts'
import { ReplySpec } from './reply/reply-spec.ts'
import { sharedPromptUsage, totalPrompt } from './reply/usage.ts'
import type { Deadline } from './request/deadline.ts'
import { type PlacedMessage, placeMessages } from './request/message.ts'
import type { MultilookRequest } from './request/multilook-request.ts'

export interface MultilookMeasure {
  /** Tokens of the context, which all prompts share. */
  readonly contextTokens: number
  /** One for each prompt, in request order. */
  readonly prompts: readonly (({ readonly type: 'measured' } & PromptUsage) | PromptFailure)[]
  /** The usage that an answer would report. */
  readonly usage: Omit<MultilookUsage, 'completionTokens'>
  /** False for estimates. */
  readonly exact: boolean
}

/**
 * Answers every prompt over the shared context. An error in a prompt's own content, an engine error about it, and a
 * timeout fail that prompt alone. An error in the context fails the call.
 * @returns the events, once the engine has admitted the prompts. Iterate them, or abort the call's signal; they throw
 * the first prompt's error when all prompts have failed.
 * @throws ApiError when the call fails, or all prompts fail, before the engine has admitted any.
 */
export async function startMultilook(request: MultilookRequest, call: Call): Promise<AsyncIterable<MultilookEvent>> {
  const begun = await begin(request, call)
  const whole = !request.streamed
  const submitted = await admit(begun, call, (work) => call.model.engine.generate({ ...work, whole }, call.signal))
  return answers(begun, submitted, call.deadline)
}

/**
 * Measures the prompts, each with the whole context. A failing prompt fails alone, as in an answer.
 * @throws ApiError when the call fails; the first prompt's error when all prompts fail.
 */
export async function measureMultilook(request: MultilookRequest, call: Call): Promise<MultilookMeasure> {
  const begun = await begin(request, call)
  const { running, answer } = await admit(begun, call, (work) => call.model.engine.measure(work, call.signal))
  const sharedTokens = await begun.prefix.countTokens()
  return {
    contextTokens: await begun.context.countTokens(),
    prompts: begun.prompts.map((prompt) => {
      const own = answer.prompts.filter((_, index) => running[index]!.prompt === prompt)
      return own.length === 0 ? { type: 'failure', error: prompt.error } : { type: 'measured', ...totalPrompt(own) }
    }),
    usage: usageOf(answer.prompts, sharedTokens),
    exact: answer.exact,
  }
}

interface Begun {
  readonly prompts: readonly PromptRun[]
  /** The context. Its tokens are counted on demand. */
  readonly context: MeasuredPrompt
  /** The prefix that the branches share: the context, or the common beginning of all its views. */
  readonly prefix: MeasuredPrompt
}

function usageOf(prompts: readonly PromptUsage[], sharedTokens: number): MultilookMeasure['usage'] {
  const { promptTokens, cachedTokens, audioTokens } = sharedPromptUsage(prompts, sharedTokens)
  return { promptTokens, cachedTokens, audioTokens }
}

/**
 * Checks the call, loads its media, and builds the branches of every prompt: one for each view. Prompts with errors
 * fail.
 */
async function begin(request: MultilookRequest, call: Call): Promise<Begun> {
  const { model, style, signal, dropped } = call
  const given = placeMessages(request.context, 'context')
  const prompts = request.prompts.map((content, index) => new PromptRun(content, index))
  checkMultilook(
    request,
    given,
    prompts.map((prompt) => prompt.placed),
    model,
  )
  const placed = await withPages(given, call)
  for (const prompt of prompts) {
    await prompt.attempt(async () => {
      checkMedia([prompt.placed], model)
      const [shown] = await withPages([prompt.placed], call)
      prompt.placed = shown!
    })
  }
  const supported = prompts.filter((prompt) => !prompt.failed)
  const asked = supported.map((prompt) => prompt.placed)
  checkMediaCount([...placed, ...asked], null)
  const { messages, format, formatParam, focus, thoughtBudget } = readControls(request, placed, model)
  if (focus !== null) throw invalidRequest('Multilook does not support the focus tool', focus)

  const withSound = request.vision.enableAudioInVideo === true
  const options = { ...call, withSound, maxFrames: framesPerVideo([...placed, ...asked]) }
  const media = await loadMedia(messages, options)
  const annotations = annotationsOf(format, { model, messages, media, dropped })
  const { nothing, instruction } = annotations
  const common = {
    media,
    instruction,
    annotated: format !== null,
    thinking: thoughtBudget !== null,
    effort: effortOf(request.reasoningEffort),
  }
  const promptOf = (messages: readonly PlacedMessage[]) =>
    buildSharedPrompt({ param: 'context', messages, ...common }, style)
  const whole = await promptOf(messages)
  const context = new MeasuredPrompt(whole.prefix, call)
  await checkContext(context, call)

  const contextAssets = assetsOf(messages).count
  const contexts = new Map<number | null, Promise<SharedPrompt>>([[null, Promise.resolve(whole)]])
  /** The context as a view shows it. A view of a prompt's own media shows none of the context's. */
  const contextOf = ({ messages, shown, choices }: View): Promise<SharedPrompt> => {
    const key = choices !== undefined ? NAMED : shown === null ? null : Math.min(shown, contextAssets)
    return getOrMake(contexts, key, () => promptOf(messages.slice(0, -1)))
  }
  const outcomes = await loadMediaGroups(
    asked.map((prompt) => [prompt]),
    options,
  )
  /** The prompts' views, each with the whole conversation. */
  const views = supported.map((prompt) => annotations.viewsOf([...messages, prompt.placed]))
  checkCompletions(sumOf(views, ({ length }) => (length === 1 ? 0 : length)) * request.n, formatParam)
  const shown = await Promise.all(views.flat().map(contextOf))
  const shared = shown.length === 0 ? context.parts : sharedBeginning(shown.map(({ prefix }) => prefix))
  const prefix = shared.length === context.parts.length ? context : new MeasuredPrompt(shared, call)
  for (const [i, prompt] of supported.entries()) {
    const outcome = outcomes[i]!
    await prompt.attempt(async () => {
      if (outcome.status === 'rejected') throw outcome.reason
      const { param } = prompt.placed
      const own = outcome.value
      const all = new Map([...media, ...own])
      const branches: (Branch & { readonly maxTokens: number })[] = []
      const specs: ReplySpec[] = []
      for (const view of views[i]!) {
        const before = await contextOf(view)
        const suffix = [...before.prefix.slice(shared.length), ...before.suffix(contentOf(view.messages.at(-1)!, own))]
        const spec = new ReplySpec({ thoughtBudget, grounding: annotations.groundingOf(view, all) }, model)
        branches.push(await branchOf({ param, prefix, suffix, spec, asked: request }, call))
        specs.push(spec)
      }
      const maxTokens = Math.max(...branches.map((branch) => branch.maxTokens))
      prompt.begin(branches, () => ({ readers: specs.map((spec) => spec.createReader()), maxTokens, nothing }))
    })
  }
  signal.throwIfAborted()
  call.held.dispose()
  return { prompts, context, prefix }
}

/** The key of the context in which earlier annotations have indices. */
const NAMED = -1

/** @throws ApiError 400 for a context that leaves no room. Most contexts are too short to need counting. */
async function checkContext(context: MeasuredPrompt, { model }: Call): Promise<void> {
  if (context.mostTokens < model.contextTokens || model.engine.info.estimatesTokens) return
  const tokens = await context.countTokens()
  if (tokens >= model.contextTokens) throw contextExceeded(model, 'context', tokens)
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
  { organisation }: Call,
  submit: (work: Work) => Promise<Answer>,
): Promise<Submitted<Answer>> {
  for (;;) {
    const admitted = prompts.filter((prompt) => !prompt.failed)
    if (admitted.length === 0) throw prompts[0]!.error
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
  // Counted while the engine computes. A failure is handled where the result is awaited.
  const counting = prefix.countTokens()
  counting.catch(() => {})
  let completionTokens = 0
  const resultOf = (prompt: PromptRun): MultilookEvent => {
    const result = prompt.result()
    if (result.type === 'answer') {
      completionTokens += result.completionTokens
      // With several branches, some may have been computed further than they were read.
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
  if (prompts.every((prompt) => prompt.failed)) throw prompts[0]!.error
  yield { type: 'finish', usage: { ...usageOf(generation.prompts, await counting), completionTokens } }
}
