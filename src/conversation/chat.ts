import type { PromptUsage } from '../inference/contract/generation.ts'
import type { Branch, Work } from '../inference/contract/work.ts'
import { lazy } from '../lib/lazy.ts'
import { branchOf, type Call } from './call/call.ts'
import { checkChat, checkFocusAlone, holdsTools } from './call/capability-checks.ts'
import { readControls } from './controls.ts'
import { ALTERNATIVES } from './detection-ratings.ts'
import { boundFocusTool, FOCUS_PARAM, type FocusParts, focusedReply, focusTool, imagesOf } from './focus.ts'
import { framesPerVideo, loadMedia, loadPicture } from './prompt/media-parts.ts'
import { withPages } from './prompt/pages.ts'
import { buildPrompt, type PromptSource } from './prompt/prompt.ts'
import { effortOf } from './prompt/thinking.ts'
import { type AskedTokens, MeasuredPrompt, roomAfter } from './prompt/token-budget.ts'
import { checkCompletions, sharedBeginning, type View, wholeView } from './prompt/views.ts'
import { assembleChoices, assembleReply } from './reply/assembler.ts'
import type { CompletionParts } from './reply/completion-reader.ts'
import { annotationsOf } from './reply/grounding.ts'
import { repliesInTurn, replyOrInstead } from './reply/replies-in-turn.ts'
import type { ChoiceEvent, ReplyEvent } from './reply/reply.ts'
import { ReplySpec } from './reply/reply-spec.ts'
import { StopCutter } from './reply/stop-cutter.ts'
import { constraintOf, demandOf } from './reply/structure/structured-reply.ts'
import { totalPrompt } from './reply/usage.ts'
import type { ChatRequest } from './request/chat-request.ts'
import { placeMessages } from './request/message.ts'

/** The size of a chat's prompt. */
export interface ChatMeasure extends Pick<PromptUsage, 'promptTokens' | 'imageTokens' | 'audioTokens'> {
  /** False for an estimate. */
  readonly exact: boolean
}

/** What the model is asked in order to produce one reply. */
interface Asked {
  /** More than one if the model is asked about one picture at a time. Each is prepared when it is needed. */
  readonly views: readonly (() => PreparedView)[]
  /** The model's reply for a picture in which it finds nothing. */
  readonly nothing: string
}

interface PreparedChat extends Asked {
  /** Asked instead if the reply to the whole conversation calls no function and does not say which picture it means. */
  readonly instead: (Asked & { isNeeded(): boolean }) | null
  readonly usesFocus: boolean
}

interface PreparedView {
  readonly prompt: PromptSource
  readonly spec: ReplySpec
  /** The images that the focus tool may look at. */
  readonly images: FocusParts['images']
}

type ReplyLimits = AskedTokens & Pick<ChatRequest, 'sampling' | 'streamed' | 'stops' | 'topLogProbs' | 'choices'>

/** Starts a chat. Resolves when the engine has admitted it. */
export async function startChat(request: ChatRequest, call: Call): Promise<AsyncIterable<ReplyEvent>> {
  const chat = await prepare(request, call)
  const { nothing, instead } = chat
  const maxTokens = request.maxTokens ?? call.model.outputTokens
  if (chat.usesFocus) {
    const cutter = new StopCutter(request.stops ?? [])
    const clampsTokens = request.maxTokens === null || request.clampsTokens
    const starts = chat.views.map((view) => (maxTokens: number) => {
      return startWithFocus(view(), { ...request, maxTokens, clampsTokens }, cutter, call)
    })
    const reply = await repliesInTurn(starts, { maxTokens, nothing, cutter })
    const images = call.held.move()
    call.signal.addEventListener('abort', () => images.dispose(), { once: true })
    if (call.signal.aborted) images.dispose()
    return reply
  }
  const reply = await startReply(chat, request, call)
  if (instead === null) return reply
  return replyOrInstead(reply, maxTokens, instead.isNeeded, (left) =>
    startReply(instead, { ...request, maxTokens: left, clampsTokens: true }, call),
  )
}

/** Starts several replies to one chat. Resolves when the engine has admitted it. */
export async function startChoices(request: ChatRequest, call: Call): Promise<AsyncIterable<ChoiceEvent>> {
  const chat = await prepare(request, call)
  const work = await workOf(chat, request, call)
  const generation = await call.model.engine.generate(work, call.signal)
  const completions = Array.from({ length: work.branches[0]!.n }, () => completionOf(chat, work, request))
  return assembleChoices({ ...call, generation, completions, stops: request.stops ?? [] })
}

/** Measures the prompt of a chat; with the focus tool, the prompt of the first round. */
export async function measureChat(request: ChatRequest, call: Call): Promise<ChatMeasure> {
  const work = await workOf(await prepare(request, call), request, call)
  const { prompts, exact } = await call.model.engine.measure(work, call.signal)
  return { ...totalPrompt(prompts), exact }
}

/** Checks a chat and loads its media. Disposes of the originals unless the focus tool may look at them again. */
async function prepare(request: ChatRequest, call: Call): Promise<PreparedChat> {
  const { model, held } = call
  const given = placeMessages(request.messages, 'messages')
  checkChat(request, given, model)
  const placed = await withPages(given, call)
  const { messages, format, formatParam, thoughtBudget, focus } = readControls(request, placed, model)
  if (focus !== null) checkFocusAlone(request, focus)

  const { enableAudioInVideo, videoSampling: wish } = request.vision
  const options = { withSound: enableAudioInVideo === true, maxFrames: framesPerVideo(messages), wish }
  const media = await loadMedia(messages, { ...call, ...options })
  const { structure, toolUse } = request
  const images: FocusParts['images'] = focus === null ? new Map() : imagesOf(messages)
  // Without an image there is no focus tool.
  const usesFocus = images.size > 0
  if (!usesFocus) held.dispose()
  const tools = callable(request)
  // A structure constrains the whole reply, so it replaces the constraint for annotations in free text.
  const bound = structure === null ? null : constraintOf(structure)
  let hasDropped = false
  const dropped = (count: number) => {
    hasDropped = true
    call.dropped(count)
  }
  const annotations = annotationsOf(format, { model, messages, media, dropped })
  const { nothing, instruction } = annotations
  const views = bound === null ? annotations.viewsOf(messages) : [wholeView(messages)]
  checkCompletions(views.length === 1 ? 1 : views.length * (request.choices ?? 1), formatParam)
  // The model decides once, about all pictures, whether to call a function.
  const mayCall = views.length > 1 && tools.length > 0 && toolUse.choice !== 'none'
  const prepareView = (view: View, asked: Pick<ChatRequest, 'tools' | 'toolUse'> | null): PreparedView => {
    const own = view.shown === null ? images : new Map([...images].filter(([asset]) => asset === view.shown))
    const shownTools = asked === null || asked.toolUse.choice === 'none' ? [] : asked.tools
    const prompt: PromptSource = {
      param: 'messages',
      messages: view.messages,
      media,
      instruction,
      annotated: format !== null,
      demand: structure === null ? null : demandOf(structure, model.card),
      tools: usesFocus ? [focusTool(own.size)] : shownTools,
      thinking: thoughtBudget !== null,
      effort: effortOf(request.reasoningEffort),
      replaysReasoning: usesFocus || tools.length > 0 || messages.some(({ message }) => holdsTools(message)),
    }
    const grounding = bound === null ? annotations.groundingOf(view, media) : null
    const calls = usesFocus
      ? { tools: [boundFocusTool(own)], toolUse: { choice: 'auto', parallel: false } as const }
      : asked
    return { prompt, spec: new ReplySpec({ bound, thoughtBudget, grounding, ...calls }, model), images: own }
  }
  const asked = { tools, toolUse }
  const prepared = views.map((view) => lazy(() => prepareView(view, mayCall ? null : asked)))
  if (!mayCall) return { views: prepared, nothing, instead: null, usesFocus }
  return {
    views: [lazy(() => prepareView(wholeView(messages), asked))],
    nothing,
    instead: { views: prepared, nothing, isNeeded: () => hasDropped },
    usesFocus,
  }
}

/** Returns the tools in the prompt. If `tool_choice` names a function, only that one is listed. */
function callable({ tools, toolUse: { choice } }: ChatRequest): ChatRequest['tools'] {
  return typeof choice === 'string' ? tools : tools.filter(({ name }) => name === choice.name)
}

/** Starts a reply in which the model may zoom into regions of the images. Each focus call starts another round. */
async function startWithFocus(
  view: PreparedView,
  limits: ReplyLimits & { readonly maxTokens: number },
  cutter: StopCutter,
  call: Call,
): Promise<AsyncIterable<ReplyEvent>> {
  const { model, media, signal } = call
  const start = (prompt: PromptSource, maxTokens: number) =>
    startReply({ views: [() => ({ ...view, prompt })], nothing: '' }, { ...limits, maxTokens }, call)
  return focusedReply(await start(view.prompt, limits.maxTokens), {
    prompt: view.prompt,
    images: view.images,
    isStopped: () => cutter.found !== null,
    maxTokens: limits.maxTokens,
    next: async (longer, left) => {
      const measured = new MeasuredPrompt(await buildPrompt(longer, call.style), call)
      const room = await roomAfter([measured], model)
      return room > 0 ? start(longer, Math.min(left, room)) : null
    },
    zoom: (image, region) =>
      loadPicture(image, { target: model.card.image!, region }, { media, param: FOCUS_PARAM, signal }),
  })
}

/** @throws ApiError when the engine cannot admit the prompt. */
async function startReply(asked: Asked, limits: ReplyLimits, call: Call): Promise<AsyncIterable<ReplyEvent>> {
  const work = await workOf(asked, limits, call)
  const generation = await call.model.engine.generate(work, call.signal)
  return assembleReply({
    ...call,
    generation,
    completion: completionOf(asked, work, limits),
    stops: limits.stops ?? [],
  })
}

async function workOf({ views }: Asked, limits: ReplyLimits, call: Call): Promise<Work> {
  const { streamed, stops = [], choices = 1 } = limits
  const apart: Branch[] = []
  // Sequential, so that a conversation that is too long is rejected before all its views are built.
  for (const view of views) {
    const { prompt, spec } = view()
    call.onIgnored?.(spec.ignoredKeywords)
    const suffix = await buildPrompt(prompt, call.style)
    apart.push(await branchOf({ param: prompt.param, suffix, spec, asked: { ...limits, n: choices } }, call))
  }
  const prefix = sharedBeginning(apart.map(({ suffix }) => suffix))
  const branches = apart.map((branch) => ({ ...branch, suffix: branch.suffix.slice(prefix.length) }))
  // Larger steps would compute tokens past a stop sequence, and past the limit for all branches.
  const whole = !streamed && stops.length === 0 && branches.length === 1
  return { organisation: call.organisation, prefix, branches, whole }
}

/** One completion of the work, whose branches are views of one chat. */
function completionOf(
  { views, nothing }: Asked,
  { branches }: Work,
  { topLogProbs }: Pick<ReplyLimits, 'topLogProbs'>,
): CompletionParts {
  return {
    readers: views.map((view) => view().spec.createReader()),
    maxTokens: Math.max(...branches.map(({ maxTokens }) => maxTokens!)),
    nothing,
    // With fewer alternatives, some nearby coordinates would be missing.
    rate: views.length === 1 && topLogProbs === ALTERNATIVES ? views[0]!().spec.rate : undefined,
  }
}
