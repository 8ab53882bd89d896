import type { Compatibility } from '../config/compatibility.ts'
import { type AnnotationFormat, hintedFormat } from '../grounding/hints.ts'
import type { ServedModel } from '../inference/catalog/registry.ts'
import type { Variant } from '../lib/error-text.ts'
import { invalidRequest, say } from '../lib/errors.ts'
import { type Param, type Path, within } from '../lib/param.ts'
import { MAX_MEDIA } from './prompt/media-parts.ts'
import { FEWEST_TOKENS_TO_THINK, thoughtBudget as thoughtBudgetOf } from './prompt/thinking.ts'
import { contextExceeded, leastTokens } from './prompt/token-budget.ts'
import type { ChatRequest, Structure } from './request/chat-request.ts'
import type { DecisionRequest, FindQuestion } from './request/decision-request.ts'
import type { DetectRequest } from './request/detect-request.ts'
import { type PlacedHint, readHints } from './request/hints.ts'
import { type Message, type Modality, mediaCount, modalityOf, type PlacedMessage, partsOf } from './request/message.ts'
import type { MultilookRequest } from './request/multilook-request.ts'
import { checkNesting } from './request/nesting.ts'
import type { ReplyOptions, VisionConfig } from './request/reply-options.ts'

const TOOLS = ['tools']
const TOOL_CHOICE = ['tool_choice']
const VISION = ['vision_config']

/** Rejects requests that the model does not support. Unsupported fields of a request are rejected, never ignored. */
export function checkChat(
  request: ChatRequest,
  messages: readonly PlacedMessage[],
  model: ServedModel,
  compatibility: Compatibility,
): void {
  const usesTools = request.tools.length > 0 || messages.some(({ message }) => holdsTools(message))
  if (usesTools && !model.served.capabilities.includes('tool_calling')) {
    throw invalidRequest(`${named(model)} does not support tool calling`, 'tools', { code: 'unsupported_parameter' })
  }
  checkToolChoice(request, compatibility)
  checkNesting(request.tools, messages)
  checkSize(messages, model, 'messages')
  checkToolSize(request, model)
  for (const placed of messages) checkMedia(placed, model)
  checkMediaCount(messages, 'messages')
  checkStructure(request, model, compatibility)
  checkOptions(request, model)
}

function checkToolChoice({ tools, toolUse: { choice } }: ChatRequest, compatibility: Compatibility): void {
  if (tools.length === 0 || choice === 'auto' || choice === 'none') return
  if (compatibility === 'contract') {
    throw invalidRequest(say`${TOOL_CHOICE} must be 'auto' or 'none': forced tool calls are not supported`, TOOL_CHOICE)
  }
  if (choice !== 'required' && !tools.some(({ name }) => name === choice.name)) {
    throw invalidRequest(
      say`${TOOL_CHOICE} names '${choice.name.slice(0, 100)}', which is not in ${TOOLS}`,
      TOOL_CHOICE,
    )
  }
}

/** Rejects tools, structures and several replies beside the focus tool, whose calls come before the reply. */
export function checkFocusAlone({ tools, structure, choices = 1 }: ChatRequest, param: Param): void {
  if (choices > 1) throw invalidRequest(say`The focus tool cannot be combined with ${['n']} above 1`, param)
  if (tools.length > 0) {
    throw invalidRequest(say`The focus tool cannot be combined with ${TOOLS}`, param, { code: 'conflicting_tools' })
  }
  if (structure !== null) {
    throw invalidRequest(say`The focus tool cannot be combined with ${parameterOf(structure)}`, param)
  }
}

function checkStructure({ structure, tools }: ChatRequest, model: ServedModel, compatibility: Compatibility): void {
  if (structure === null) return
  const feature = parameterOf(structure)
  const param = structure.type === 'regex' ? 'regex' : 'response_format'
  const capability = structure.type === 'regex' ? 'regex' : 'response_format_json_schema'
  if (!model.served.capabilities.includes(capability)) {
    throw invalidRequest(say`${named(model)} does not support ${feature}`, param)
  }
  if (tools.length > 0 && (compatibility === 'contract' || structure.type === 'regex')) {
    throw invalidRequest(say`${feature} cannot be combined with ${TOOLS}`, param, {
      code: 'unsupported_tools_combination',
    })
  }
}

/**
 * Checks what all prompts of a multilook share. What concerns one prompt is checked with that prompt, and fails only
 * it.
 */
export function checkMultilook(
  request: MultilookRequest,
  context: readonly PlacedMessage[],
  prompts: readonly PlacedMessage[],
  model: ServedModel,
): void {
  if (!model.card.extensions) throw invalidRequest(`${named(model)} does not support multilook`, 'model')
  const withTools = context.find(({ message }) => holdsTools(message))
  if (withTools) {
    throw invalidRequest('Multilook does not support tool messages or tool calls in its context', withTools.param, {
      code: 'unsupported_parameter',
    })
  }
  checkSize(context, model, 'context')
  for (const placed of context) checkMedia(placed, model)
  checkMediaCount([...context, ...prompts], null)
  checkOptions(request, model)
}

/** Checks decisions. @param asked the questions that are read, as the model is asked them. */
export function checkDecisions(
  { input, questions }: DecisionRequest,
  asked: readonly PlacedMessage[],
  model: ServedModel,
): void {
  const withTools = input.find(({ message }) => holdsTools(message))
  if (withTools && !model.served.capabilities.includes('tool_calling')) {
    throw invalidRequest(`${named(model)} does not support tool calling`, withTools.param, {
      code: 'unsupported_parameter',
    })
  }
  checkSize(input, model, 'input')
  const messages = [...input, ...asked]
  for (const placed of messages) checkMedia(placed, model)
  checkMediaCount(messages, null)
  const modalities = new Set(
    input.flatMap((placed) =>
      [...partsOf(placed)].map(({ part }) => (part.type === 'text' ? 'text' : modalityOf(part))),
    ),
  )
  for (const question of questions) {
    if (question.type === 'box' || question.type === 'point' || question.type === 'clip') {
      checkFind(question, modalities, model)
    }
  }
}

/** The most characters of what is looked for. They become part of a pattern, whose size is limited. */
const MOST_TO_FIND = 400

function checkFind(
  { type, param, instructions }: FindQuestion,
  modalities: ReadonlySet<'text' | Modality>,
  model: ServedModel,
): void {
  if (!model.served.outputFormats.includes(type)) {
    throw invalidRequest(`${named(model)} does not support the output '${type}'`, within(param, 'type'))
  }
  const needed = type === 'clip' ? 'video' : 'image'
  if (!modalities.has(needed)) {
    throw invalidRequest(
      say`A question for a ${type} needs ${needed === 'image' ? 'an image' : 'a video'} in the ${['input']}`,
      within(param, 'type'),
    )
  }
  if (type !== 'clip' && instructions.length > MOST_TO_FIND) {
    const asked = within(param, 'instructions')
    throw invalidRequest(say`${asked} may have at most ${MOST_TO_FIND} characters`, asked)
  }
}

/** Checks a detect request. Its model was chosen because it takes images and supports annotations. */
export function checkDetect({ output, thinking }: DetectRequest, model: ServedModel): void {
  if (output === 'box' && !model.served.outputFormats.includes('box')) {
    throw invalidRequest(`${named(model)} supports only the output 'point'`, ['config', 'output'])
  }
  if (thinking && !model.served.reasoning) {
    throw invalidRequest(`${named(model)} does not support reasoning`, ['config', 'enable_thinking'])
  }
}

export function holdsTools(message: Message): boolean {
  return message.role === 'tool' || (message.role === 'assistant' && (message.tool_calls ?? []).length > 0)
}

/**
 * Rejects messages that cannot fit the context, without rendering or tokenising them, which takes long for large texts.
 * Every message takes at least one token of the template, and every text a number that its length bounds from below.
 */
function checkSize(messages: readonly PlacedMessage[], model: ServedModel, param: Param): void {
  const tooMany = messages.length > model.contextTokens
  if (tooMany || leastTokens(textsIn(messages), model) > model.contextTokens) throw contextExceeded(model, param)
}

function* textsIn(messages: readonly PlacedMessage[]): Generator<string, void, void> {
  for (const placed of messages) {
    for (const { part } of partsOf(placed)) if (part.type === 'text') yield part.text
    const { message } = placed
    if (message.role !== 'assistant') continue
    for (const call of message.tool_calls ?? []) yield withoutSpace(call.function.arguments)
  }
}

/** The same check for the tools in the prompt, which a template renders name by name. */
function checkToolSize({ tools, toolUse }: ChatRequest, model: ServedModel): void {
  if (toolUse.choice === 'none') return
  const texts = tools.flatMap(({ name, parameters }) => [name, withoutSpace(parameters ?? '')])
  if (leastTokens(texts, model) > model.contextTokens) throw contextExceeded(model, 'tools')
}

/** Templates may write JSON with less white space than the client did. */
function withoutSpace(json: string): string {
  return json.replace(/\s+/g, '')
}

/** @throws ApiError 400 for media that the model does not support. */
export function checkMedia(placed: PlacedMessage, model: ServedModel): void {
  for (const { part, param } of partsOf(placed)) {
    if (part.type === 'text') continue
    const modality = modalityOf(part)
    if (!model.served.modalities.includes(modality)) {
      throw invalidRequest(`${named(model)} does not support ${modality} input`, within(param, part.type))
    }
  }
}

function checkMediaCount(messages: readonly PlacedMessage[], param: Param | null): void {
  let visual = 0
  let audio = 0
  for (const placed of messages) {
    for (const { part } of partsOf(placed)) {
      if (part.type === 'text') continue
      if (modalityOf(part) === 'audio') audio++
      else visual += mediaCount(part)
    }
  }
  for (const [count, noun] of [
    [visual, 'images and video frames'],
    [audio, 'audio inputs'],
  ] as const) {
    if (count > MAX_MEDIA) {
      throw invalidRequest(`A request may contain at most ${MAX_MEDIA} ${noun}, got ${count}`, param)
    }
  }
}

function checkOptions(
  { vision, maxTokens, maxTokensParam: param, clampsTokens }: ReplyOptions,
  model: ServedModel,
): void {
  checkVision(vision, model)
  if (maxTokens !== null && maxTokens > model.outputTokens && !clampsTokens) {
    throw invalidRequest(
      say`${[param]} is ${maxTokens}, but ${named(model)} generates at most ${model.outputTokens} tokens`,
      param,
    )
  }
}

function checkVision(vision: VisionConfig, model: ServedModel): void {
  const isSet = Object.values(vision).some((value) => value !== null)
  if (isSet && !model.card.extensions) {
    throw invalidRequest(say`${named(model)} does not support ${VISION}`, VISION)
  }
  if (vision.enableAudioInVideo && !model.served.modalities.includes('audio')) {
    throw invalidRequest(`${named(model)} does not support audio input`, within(VISION, 'enable_audio_in_video'))
  }
}

/** The parameter that sets a structure. */
function parameterOf({ type }: Structure): Path | Variant {
  return type === 'regex' ? ['regex'] : { of: ['response_format'], type }
}

/** A conversation without its hints, and the controls that its fields and hints set. */
export interface ControlledConversation {
  readonly messages: readonly PlacedMessage[]
  readonly format: AnnotationFormat | null
  /** The parameter that asks for annotations. */
  readonly formatParam: Param
  /** The most tokens of the reasoning; null when reasoning is off. */
  readonly thoughtBudget: number | null
  /** The parameter that turns the focus tool on; null when it is off. */
  readonly focus: Param | null
}

/**
 * Combines fields and hints. A field overrides hints, and of several hints for a format the last one counts. For a
 * model without the extensions, a hint is plain text.
 * @throws ApiError 400 for controls that the model does not support.
 */
export function readControls(
  request: ReplyOptions,
  placed: readonly PlacedMessage[],
  model: ServedModel,
): ControlledConversation {
  const { hints, messages } = model.card.extensions ? readHints(placed) : { hints: [], messages: placed }

  const reasoning = reasoningParam(request, hints)
  if (reasoning && !model.served.reasoning) {
    throw invalidRequest(`${named(model)} does not support reasoning`, reasoning)
  }
  const timed = placed.some((message) => [...partsOf(message)].some(({ part }) => part.type.startsWith('video')))
  const { format, param: formatParam } = resolveFormat(request, hints, model, timed)
  const { maxTokens } = request
  const hasRoom = maxTokens === null || maxTokens === 0 || maxTokens >= FEWEST_TOKENS_TO_THINK
  const { reasoningEffort, thoughtBudget: asked = thoughtBudgetOf(reasoningEffort) } = request
  const thoughtBudget = reasoning === null || !hasRoom ? null : asked
  const focus = focusParam(request, hints)
  if (focus) checkFocus(focus, messages, model)
  return { messages, format, formatParam, thoughtBudget, focus }
}

function resolveFormat(
  { vision }: ReplyOptions,
  hints: readonly PlacedHint[],
  model: ServedModel,
  timed: boolean,
): { readonly format: AnnotationFormat | null; readonly param: Param } {
  const hinted = hints
    .map(({ hint, param }) => ({ format: hintedFormat(hint), param }))
    .findLast(({ format }) => format !== undefined)
  const format = vision.annotationFormat ?? hinted?.format ?? null
  const param = vision.annotationFormat === null && hinted ? hinted.param : within(VISION, 'annotation_format')
  if (format !== null && !model.served.outputFormats.includes(format)) {
    throw invalidRequest(`${named(model)} does not support the annotation format '${format}'`, param)
  }
  if (format === 'clip' && !timed) throw invalidRequest("The annotation format 'clip' requires a video", param)
  return { format, param }
}

/** The parameter that turns reasoning on; null when it is off. */
function reasoningParam({ vision, reasoningEffort }: ReplyOptions, hints: readonly PlacedHint[]): Param | null {
  if (vision.enableThinking !== null) return vision.enableThinking ? within(VISION, 'enable_thinking') : null
  const hint = hints.find(({ hint }) => hint === 'THINK')
  if (hint) return hint.param
  return reasoningEffort !== null && reasoningEffort !== 'none' ? 'reasoning_effort' : null
}

/** The parameter that turns the focus tool on; null when it is off. */
function focusParam({ vision }: ReplyOptions, hints: readonly PlacedHint[]): Param | null {
  if (vision.focus !== null) return vision.focus ? FOCUS_PARAM : null
  return hints.find(({ hint }) => hint === 'FOCUS')?.param ?? null
}

const FOCUS_PARAM = within(VISION, 'internal_tools', 'focus')

function checkFocus(param: Param, messages: readonly PlacedMessage[], { card, served, id }: ServedModel): void {
  if (!card.toolSyntax || !served.modalities.includes('image')) {
    throw invalidRequest(`Model '${id}' does not support the focus tool`, param)
  }
  const timed = messages.some((message) => [...partsOf(message)].some(({ part }) => part.type.startsWith('video')))
  if (timed) throw invalidRequest('The focus tool supports images only, but the request contains a video', param)
}

function named(model: ServedModel): string {
  return `Model '${model.id}'`
}
