import type { Compatibility } from '../config/compatibility.ts'
import { type AnnotationFormat, hintedFormat } from '../grounding/index.ts'
import type { ServedModel } from '../inference/registry.ts'
import { invalidRequest } from '../lib/errors.ts'
import { MAX_MEDIA } from './prompt/media-parts.ts'
import { FEWEST_TOKENS_TO_THINK, thoughtBudget as thoughtBudgetOf } from './prompt/thinking.ts'
import { contextExceeded, leastTokens } from './prompt/token-budget.ts'
import type { ChatRequest } from './request/chat-request.ts'
import type { DetectRequest } from './request/detect-request.ts'
import { type PlacedHint, readHints } from './request/hints.ts'
import { type Message, mediaCount, modalityOf, type PlacedMessage, partsOf } from './request/message.ts'
import type { MultilookRequest } from './request/multilook-request.ts'
import { checkNesting } from './request/nesting.ts'
import type { ReplyOptions, VisionConfig } from './request/reply-options.ts'

/** Refuses what the model does not do; nothing that a client asks for is passed over in silence. */
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
  checkStructure(request, model)
  checkOptions(request, model)
}

function checkToolChoice({ tools, toolUse: { choice } }: ChatRequest, compatibility: Compatibility): void {
  if (tools.length === 0 || choice === 'auto' || choice === 'none') return
  if (compatibility === 'contract') {
    throw invalidRequest("tool_choice can only be 'auto' or 'none': a model is not made to call a tool", 'tool_choice')
  }
  if (choice !== 'required' && !tools.some(({ name }) => name === choice.name)) {
    throw invalidRequest(`tool_choice names '${choice.name.slice(0, 100)}', which is not in tools`, 'tool_choice')
  }
}

/** The looks are calls of a tool of the server's own, and what follows them is the reply. */
export function checkFocusAlone({ tools, structure }: ChatRequest, param: string): void {
  if (tools.length > 0) {
    throw invalidRequest('The focus tool cannot be combined with tools', param, { code: 'conflicting_tools' })
  }
  if (structure !== null) {
    throw invalidRequest('The focus tool cannot be combined with regex or response_format json_schema', param)
  }
}

function checkStructure({ structure, tools }: ChatRequest, model: ServedModel): void {
  if (structure === null) return
  const param = structure.type === 'regex' ? 'regex' : 'response_format'
  const capability = structure.type === 'regex' ? 'regex' : 'response_format_json_schema'
  const words = structure.type === 'regex' ? 'regex' : `response_format ${structure.type}`
  if (!model.served.capabilities.includes(capability)) {
    throw invalidRequest(`${named(model)} does not support ${words}`, param)
  }
  if (tools.length > 0) {
    throw invalidRequest(`${words} cannot be combined with tools`, param, { code: 'unsupported_tools_combination' })
  }
}

/** The same for what all prompts of a multilook share. What a single prompt holds is that prompt's own matter. */
export function checkMultilook(
  request: MultilookRequest,
  context: readonly PlacedMessage[],
  prompts: readonly PlacedMessage[],
  model: ServedModel,
): void {
  if (!model.card.extensions) throw invalidRequest(`${named(model)} does not support multilook`, 'model')
  const withTools = context.find(({ message }) => holdsTools(message))
  if (withTools) {
    throw invalidRequest('Multilook does not take tool messages or tool calls in its context', withTools.param, {
      code: 'unsupported_parameter',
    })
  }
  checkSize(context, model, 'context')
  for (const placed of context) checkMedia(placed, model)
  checkMediaCount([...context, ...prompts], null)
  checkOptions(request, model)
}

/** The same for a search. Its model was chosen for taking pictures and grounding in them. */
export function checkDetect({ output, thinking }: DetectRequest, model: ServedModel): void {
  if (output === 'box' && !model.served.outputFormats.includes('box')) {
    throw invalidRequest(`${named(model)} finds points only`, 'config.output')
  }
  if (thinking && !model.served.reasoning) {
    throw invalidRequest(`${named(model)} does not support reasoning`, 'config.enable_thinking')
  }
}

export function holdsTools(message: Message): boolean {
  return message.role === 'tool' || (message.role === 'assistant' && (message.tool_calls ?? []).length > 0)
}

/**
 * Every turn costs some tokens of the template's own, and every text some: what cannot fit needs neither rendering nor
 * tokenising to be refused, which of large texts takes long.
 */
function checkSize(messages: readonly PlacedMessage[], model: ServedModel, param: string): void {
  const tooMany = messages.length > model.contextTokens
  if (tooMany || leastTokens(textsIn(messages), model) > model.contextTokens) throw contextExceeded(model, param)
}

function* textsIn(messages: readonly PlacedMessage[]): Generator<string, void, void> {
  for (const placed of messages) {
    for (const { part } of partsOf(placed)) if (part.type === 'text') yield part.text
    const { message } = placed
    if (message.role !== 'assistant') continue
    for (const call of message.tool_calls ?? []) yield withoutBlanks(call.function.arguments)
  }
}

/** The same for the tools that the model is told of: a template goes through each name in a schema. */
function checkToolSize({ tools, toolUse }: ChatRequest, model: ServedModel): void {
  if (toolUse.choice === 'none') return
  const texts = tools.flatMap(({ name, parameters }) => [name, withoutBlanks(parameters ?? '')])
  if (leastTokens(texts, model) > model.contextTokens) throw contextExceeded(model, 'tools')
}

/** Templates may write JSON closer than the client did. */
function withoutBlanks(json: string): string {
  return json.replace(/\s+/g, '')
}

/** @throws ApiError 400 for media that the model does not take. */
export function checkMedia(placed: PlacedMessage, model: ServedModel): void {
  for (const { part, param } of partsOf(placed)) {
    if (part.type === 'text') continue
    const modality = modalityOf(part)
    if (!model.served.modalities.includes(modality)) {
      throw invalidRequest(`${named(model)} does not support ${modality} input`, `${param}.${part.type}`)
    }
  }
}

function checkMediaCount(messages: readonly PlacedMessage[], param: string | null): void {
  let pictures = 0
  let sounds = 0
  for (const placed of messages) {
    for (const { part } of partsOf(placed)) {
      if (part.type === 'text') continue
      if (modalityOf(part) === 'audio') sounds++
      else pictures += mediaCount(part)
    }
  }
  for (const [count, words] of [
    [pictures, 'images and video frames'],
    [sounds, 'sounds'],
  ] as const) {
    if (count > MAX_MEDIA) {
      throw invalidRequest(`A request may hold at most ${MAX_MEDIA} ${words}, got ${count}`, param)
    }
  }
}

function checkOptions({ vision, maxTokens, maxTokensParam: param }: ReplyOptions, model: ServedModel): void {
  checkVision(vision, model)
  if (maxTokens !== null && maxTokens > model.outputTokens) {
    throw invalidRequest(
      `${param} is ${maxTokens}, but ${named(model)} gives at most ${model.outputTokens} tokens`,
      param,
    )
  }
}

function checkVision(vision: VisionConfig, model: ServedModel): void {
  const asked = Object.values(vision).some((value) => value !== null)
  if (asked && !model.card.extensions) {
    throw invalidRequest(`${named(model)} does not support vision_config`, 'vision_config')
  }
  if (vision.enableAudioInVideo && !model.served.modalities.includes('audio')) {
    throw invalidRequest(`${named(model)} does not support audio input`, 'vision_config.enable_audio_in_video')
  }
}

/** A conversation as the model is to see it. */
export interface ControlledConversation {
  readonly messages: readonly PlacedMessage[]
  readonly format: AnnotationFormat | null
  /** Most tokens of a thought; null when the model is not to think. */
  readonly thoughtBudget: number | null
  /** The parameter that lets the model look at regions of pictures; null when nothing does. */
  readonly focus: string | null
}

/**
 * Brings fields and hints together. A field, being typed, wins over a hint; of several hints the last one wins. For a
 * model without the extensions a hint is text.
 * @throws ApiError 400 for what the model does not do.
 */
export function readControls(
  request: ReplyOptions,
  placed: readonly PlacedMessage[],
  model: ServedModel,
): ControlledConversation {
  const { hints, messages } = model.card.extensions ? readHints(placed) : { hints: [], messages: placed }

  const reasoning = reasoningAsked(request, hints)
  if (reasoning && !model.served.reasoning) {
    throw invalidRequest(`${named(model)} does not support reasoning`, reasoning)
  }
  const timed = placed.some((message) => [...partsOf(message)].some(({ part }) => part.type.startsWith('video')))
  const format = resolveFormat(request, hints, model, timed)
  const { maxTokens } = request
  const hasRoom = maxTokens === null || maxTokens === 0 || maxTokens >= FEWEST_TOKENS_TO_THINK
  const thoughtBudget = reasoning === null || !hasRoom ? null : thoughtBudgetOf(request.reasoningEffort)
  const focus = focusAsked(request, hints)
  if (focus) checkFocus(focus, messages, model)
  return { messages, format, thoughtBudget, focus }
}

function resolveFormat(
  { vision }: ReplyOptions,
  hints: readonly PlacedHint[],
  model: ServedModel,
  timed: boolean,
): AnnotationFormat | null {
  const hinted = hints
    .map(({ hint, param }) => ({ format: hintedFormat(hint), param }))
    .findLast(({ format }) => format !== undefined)
  const format = vision.annotationFormat ?? hinted?.format ?? null
  const param = vision.annotationFormat === null && hinted ? hinted.param : 'vision_config.annotation_format'
  if (format !== null && !model.served.outputFormats.includes(format)) {
    throw invalidRequest(`${named(model)} does not support the annotation format '${format}'`, param)
  }
  if (format === 'clip' && !timed) throw invalidRequest("The annotation format 'clip' needs a video", param)
  return format
}

/** The parameter that turns reasoning on; null when it stays off. */
function reasoningAsked({ vision, reasoningEffort }: ReplyOptions, hints: readonly PlacedHint[]): string | null {
  if (vision.enableThinking !== null) return vision.enableThinking ? 'vision_config.enable_thinking' : null
  const hint = hints.find(({ hint }) => hint === 'THINK')
  if (hint) return hint.param
  return reasoningEffort !== null && reasoningEffort !== 'none' ? 'reasoning_effort' : null
}

/** The parameter that turns the focus tool on; null when it stays off. */
function focusAsked({ vision }: ReplyOptions, hints: readonly PlacedHint[]): string | null {
  if (vision.focus !== null) return vision.focus ? FOCUS_PARAM : null
  return hints.find(({ hint }) => hint === 'FOCUS')?.param ?? null
}

const FOCUS_PARAM = 'vision_config.internal_tools.focus'

function checkFocus(param: string, messages: readonly PlacedMessage[], { card, served, id }: ServedModel): void {
  if (!card.toolSyntax || !served.modalities.includes('image')) {
    throw invalidRequest(`Model '${id}' does not support the focus tool`, param)
  }
  const timed = messages.some((message) => [...partsOf(message)].some(({ part }) => part.type.startsWith('video')))
  if (timed) throw invalidRequest('The focus tool is for images only, and the request holds a video', param)
}

function named(model: ServedModel): string {
  return `Model '${model.id}'`
}
