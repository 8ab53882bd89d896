import type { ServedModel } from '../../inference/catalog/registry.ts'
import type { Variant } from '../../lib/errors/error-text.ts'
import { invalidRequest, say } from '../../lib/errors/errors.ts'
import { type Param, type Path, within } from '../../lib/errors/param.ts'
import { sumOf } from '../../lib/sum.ts'
import { MAX_MEDIA } from '../prompt/media-parts.ts'
import { type AskedTokens, contextExceeded, leastTokens } from '../prompt/token-budget.ts'
import type { ChatRequest, Structure } from '../request/chat-request.ts'
import { type DecisionRequest, type FindQuestion, isFind } from '../request/decision-request.ts'
import type { DetectRequest, Targets } from '../request/detect-request.ts'
import {
  type Message,
  type Modality,
  mediaCount,
  mediaIn,
  modalityOf,
  type PlacedMessage,
  partsOf,
} from '../request/message.ts'
import type { MultilookRequest } from '../request/multilook-request.ts'
import { checkNesting } from '../request/nesting.ts'
import type { ReplyOptions, VisionConfig } from '../request/reply-options.ts'

const TOOLS = ['tools']
const TOOL_CHOICE = ['tool_choice']
const VISION = ['vision_config']

/** Rejects requests that the model does not support. Unsupported fields of a request are rejected, never ignored. */
export function checkChat(request: ChatRequest, messages: readonly PlacedMessage[], model: ServedModel): void {
  const usesTools = request.tools.length > 0 || messages.some(({ message }) => holdsTools(message))
  if (usesTools && !model.served.capabilities.includes('tool_calling')) {
    throw invalidRequest(`${named(model)} does not support tool calling`, 'tools', { code: 'unsupported_parameter' })
  }
  checkToolChoice(request)
  checkNesting(request.tools, messages)
  checkSize(messages, model, 'messages')
  checkToolSize(request, model)
  checkMedia(messages, model)
  checkMediaCount(messages, 'messages')
  checkStructure(request, model)
  checkOptions(request, model)
}

function checkToolChoice({ tools, toolUse: { choice }, compatibility }: ChatRequest): void {
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

/** Rejects tools, structures and several replies together with the focus tool, whose calls come before the reply. */
export function checkFocusAlone({ tools, structure, choices = 1 }: ChatRequest, param: Param): void {
  if (choices > 1) throw invalidRequest(say`The focus tool cannot be combined with ${['n']} above 1`, param)
  if (tools.length > 0) {
    throw invalidRequest(say`The focus tool cannot be combined with ${TOOLS}`, param, { code: 'conflicting_tools' })
  }
  if (structure !== null) {
    throw invalidRequest(say`The focus tool cannot be combined with ${parameterOf(structure)}`, param)
  }
}

function checkStructure({ structure, tools, compatibility }: ChatRequest, model: ServedModel): void {
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
 * Checks the parts of a multilook that all prompts share. A problem in one prompt is found later, and fails only that
 * prompt.
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
  checkMedia(context, model)
  checkMediaCount([...context, ...prompts], null)
  checkOptions(request, model)
}

/** Checks decisions. @param asked the questions that are read, as the model gets them. */
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
  checkMedia(messages, model)
  checkMediaCount(messages, null)
  const modalities = new Set(
    input.flatMap((placed) =>
      [...partsOf(placed)].map(({ part }) => (part.type === 'text' ? 'text' : modalityOf(part))),
    ),
  )
  for (const question of questions) {
    if (isFind(question)) checkFind(question, modalities, model)
  }
}

/** Maximum characters of `instructions`. They become part of a pattern, whose size is limited. */
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
export function checkDetect(
  { output, thinking, tiles = null }: Targets & Partial<Pick<DetectRequest, 'tiles'>>,
  model: ServedModel,
): void {
  if (output === 'box' && !model.served.outputFormats.includes('box')) {
    throw invalidRequest(`${named(model)} supports only the output 'point'`, ['config', 'output'])
  }
  if (tiles !== null && !model.served.outputFormats.includes('box')) {
    throw invalidRequest(`${named(model)} gives no boxes, by which tiles are put together`, ['config', 'tiles'])
  }
  if (thinking && !model.served.reasoning) {
    throw invalidRequest(`${named(model)} does not support reasoning`, ['config', 'enable_thinking'])
  }
}

export function holdsTools(message: Message): boolean {
  return message.role === 'tool' || (message.role === 'assistant' && (message.tool_calls ?? []).length > 0)
}

/**
 * Rejects messages that cannot fit the context without rendering or tokenising them, which is slow for large texts. The
 * template adds at least one token per message, and a text's length gives a lower bound of its tokens.
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

/** Makes the same check for the tools in the prompt: a template renders every name. */
function checkToolSize({ tools, toolUse }: ChatRequest, model: ServedModel): void {
  if (toolUse.choice === 'none') return
  const texts = tools.flatMap(({ name, parameters }) => [name, withoutSpace(parameters ?? '')])
  if (leastTokens(texts, model) > model.contextTokens) throw contextExceeded(model, 'tools')
}

/** Templates may write JSON with less white space than the client. */
function withoutSpace(json: string): string {
  return json.replace(/\s+/g, '')
}

/** @throws ApiError 400 for media that the model does not support. */
export function checkMedia(messages: readonly PlacedMessage[], model: ServedModel): void {
  for (const { part, param } of mediaIn(messages)) {
    const modality = modalityOf(part)
    if (!model.served.modalities.includes(modality)) {
      throw invalidRequest(`${named(model)} does not support ${modality} input`, within(param, part.type))
    }
  }
}

/** @throws ApiError 400 for more media than a request may have. */
export function checkMediaCount(messages: readonly PlacedMessage[], param: Param | null): void {
  const media = mediaIn(messages).map(({ part }) => part)
  const audio = media.filter((part) => modalityOf(part) === 'audio').length
  const visual = sumOf(media, mediaCount) - audio
  for (const [count, noun] of [
    [visual, 'images and video frames'],
    [audio, 'audio inputs'],
  ] as const) {
    if (count > MAX_MEDIA) {
      throw invalidRequest(`A request may contain at most ${MAX_MEDIA} ${noun}, got ${count}`, param)
    }
  }
}

function checkOptions(options: ReplyOptions, model: ServedModel): void {
  checkVision(options.vision, model)
  checkMaxTokens(options, model)
}

/** @throws ApiError 400 for a longer reply than the model gives. */
export function checkMaxTokens(
  { maxTokens, maxTokensParam: param, clampsTokens = false }: AskedTokens,
  model: ServedModel,
): void {
  if (maxTokens === null || maxTokens <= model.outputTokens || clampsTokens) return
  throw invalidRequest(
    say`${[param]} is ${maxTokens}, but ${named(model)} generates at most ${model.outputTokens} tokens`,
    param,
  )
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

/** Returns the parameter that sets a structure. */
function parameterOf({ type }: Structure): Path | Variant {
  return type === 'regex' ? ['regex'] : { of: ['response_format'], type }
}

export function named(model: ServedModel): string {
  return `Model '${model.id}'`
}
