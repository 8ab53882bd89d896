import { type AnnotationFormat, type Hint, hintedFormat, takeHints } from '../grounding/hints.ts'
import type { ServedModel } from '../inference/catalog/registry.ts'
import { invalidRequest } from '../lib/errors/errors.ts'
import { type Param, type Path, within } from '../lib/errors/param.ts'
import { named } from './call/capability-checks.ts'
import { FOCUS_PARAM } from './focus.ts'
import { FEWEST_TOKENS_TO_THINK, thoughtBudget as thoughtBudgetOf } from './prompt/thinking.ts'
import {
  mediaIn,
  modalityOf,
  type PlacedMessage,
  partsOf,
  type SystemMessage,
  type TextContent,
} from './request/message.ts'
import type { ReplyOptions } from './request/reply-options.ts'

const VISION = ['vision_config']

/** A conversation without its hints, and the controls that its fields and hints set. */
interface ControlledConversation {
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
 * Combines fields and hints. A field overrides hints, and the last of several hints for a format counts. For a model
 * without the extensions, a hint is plain text.
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
  const { format, param: formatParam } = resolveFormat(request, hints, model)
  if (format === 'clip' && !holdsVideo(messages)) {
    throw invalidRequest("The annotation format 'clip' requires a video", formatParam)
  }
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
): { readonly format: AnnotationFormat | null; readonly param: Param } {
  const hinted = hints
    .map(({ hint, param }) => ({ format: hintedFormat(hint), param }))
    .findLast(({ format }) => format !== undefined)
  const format = vision.annotationFormat ?? hinted?.format ?? null
  const param = vision.annotationFormat === null && hinted ? hinted.param : within(VISION, 'annotation_format')
  if (format !== null && !model.served.outputFormats.includes(format)) {
    throw invalidRequest(`${named(model)} does not support the annotation format '${format}'`, param)
  }
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

function checkFocus(param: Param, messages: readonly PlacedMessage[], { card, served, id }: ServedModel): void {
  if (!card.toolSyntax || !served.modalities.includes('image')) {
    throw invalidRequest(`Model '${id}' does not support the focus tool`, param)
  }
  if (holdsVideo(messages))
    throw invalidRequest('The focus tool supports images only, but the request contains a video', param)
}

function holdsVideo(messages: readonly PlacedMessage[]): boolean {
  return mediaIn(messages).some(({ part }) => modalityOf(part) === 'video')
}

interface PlacedHint {
  readonly hint: Hint
  /** The parameter that contained the hint. */
  readonly param: Path
}

/**
 * Removes the format hints from system messages. In messages of other roles a hint is plain text. A system message that
 * contains only hints is removed.
 */
function readHints(messages: readonly PlacedMessage[]): { hints: PlacedHint[]; messages: PlacedMessage[] } {
  const hints: PlacedHint[] = []
  const rest: PlacedMessage[] = []
  for (const placed of messages) {
    const { role } = placed.message
    if (role !== 'system' && role !== 'developer') {
      rest.push(placed)
      continue
    }
    const before = hints.length
    const content: TextContent[] = []
    for (const { part, param } of partsOf(placed)) {
      if (part.type !== 'text') continue
      const taken = takeHints(part.text)
      hints.push(...taken.hints.map((hint) => ({ hint, param })))
      content.push({ type: 'text', text: taken.rest })
    }
    const blank = content.every(({ text }) => text.trim() === '')
    if (blank && hints.length > before) continue
    rest.push({ message: { role, content } satisfies SystemMessage, param: placed.param })
  }
  return { hints, messages: rest }
}
