import type { Content, DecisionRequest, Question } from '../../../conversation/request/decision-request.ts'
import type { ContentPart, MediaUrl, Message, PlacedMessage, ToolCall } from '../../../conversation/request/message.ts'
import { invalidRequest } from '../../../lib/errors/errors.ts'
import type { Names, Path } from '../../../lib/errors/param.ts'
import type { GridRegion } from '../../../media/coordinates.ts'
import type {
  DecisionItemBody,
  DecisionPartBody,
  DecisionQuestionBody,
  DecisionRequestBody,
} from './wire/decision-request.ts'

const MOST_COUNTED = 20

type CallItem = Extract<DecisionItemBody, { type: 'function_call' | 'custom_tool_call' }>
type OutputItem = Extract<DecisionItemBody, { type: 'function_call_output' | 'custom_tool_call_output' }>
type MessageItem = Exclude<DecisionItemBody, CallItem | OutputItem>
type Instructions = string | readonly DecisionPartBody[]

export function toDecisionRequest(body: DecisionRequestBody): DecisionRequest {
  const { input, questions, x_calibrated } = body
  return {
    input: typeof input === 'string' ? [userText(input)] : toMessages(input),
    questions: questions.map((question, index) => toQuestion(question, ['questions', index])),
    calibrated: x_calibrated ?? true,
    names: paramNames(body),
  }
}

/** Questions about a picture or a part of it, which have been validated before. */
export function aboutPicture(
  { url, region }: { readonly url: MediaUrl; readonly region: GridRegion | null },
  { model, questions }: { readonly model: string; readonly questions: readonly object[] },
): DecisionRequest {
  const picture = { type: 'image_url', image_url: { url }, ...(region && { region }) } as const
  const input: DecisionRequestBody['input'] = [{ role: 'user', content: [picture] }]
  return toDecisionRequest({ model, input, questions: questions as DecisionQuestionBody[] })
}

function userText(content: string): PlacedMessage {
  return { message: { role: 'user', content }, param: ['input'], places: [['input']] }
}

/** Consecutive calls form one turn. @throws ApiError 400 for an output without its call. */
function toMessages(items: readonly DecisionItemBody[]): PlacedMessage[] {
  const messages: PlacedMessage[] = []
  const calls = new Set<string>()
  /** The calls of the turn that may still continue. */
  let turn: ToolCall[] | null = null
  for (const [index, item] of items.entries()) {
    const param = ['input', index]
    if (isCall(item)) {
      calls.add(item.call_id)
      if (turn === null) {
        turn = []
        messages.push({ message: { role: 'assistant', tool_calls: turn }, param })
      }
      turn.push(toCall(item))
      continue
    }
    turn = null
    if (isOutput(item)) {
      if (!calls.has(item.call_id)) {
        throw invalidRequest(`No earlier call has the id '${item.call_id.slice(0, 100)}'`, [...param, 'call_id'])
      }
      messages.push(toToolMessage(item, param))
    } else {
      messages.push({ message: toMessage(item), param })
    }
  }
  return messages
}

function isCall(item: DecisionItemBody): item is CallItem {
  return item.type === 'function_call' || item.type === 'custom_tool_call'
}

function isOutput(item: DecisionItemBody): item is OutputItem {
  return item.type === 'function_call_output' || item.type === 'custom_tool_call_output'
}

function toCall(item: CallItem): ToolCall {
  const text = item.type === 'function_call' ? item.arguments : JSON.stringify({ input: item.input })
  return { id: item.call_id, function: { name: item.name, arguments: text } }
}

function toToolMessage({ call_id: id, output }: OutputItem, param: Path): PlacedMessage {
  const content = typeof output === 'string' ? output : output.map(toPart)
  const at = [...param, 'output']
  const places = typeof output === 'string' ? [at] : output.map((_, part) => [...at, part])
  return { message: { role: 'tool', tool_call_id: id, content }, param, places }
}

function toMessage({ role, content }: MessageItem): Message {
  switch (role) {
    case 'user':
      return { role, content: typeof content === 'string' ? content : content.map(toPart) }
    case 'assistant':
      return {
        role,
        content:
          typeof content === 'string'
            ? content
            : content.map((part) => ({ type: 'text', text: part.type === 'refusal' ? part.refusal : part.text })),
      }
    default:
      return {
        role,
        content: typeof content === 'string' ? content : content.map(({ text }) => ({ type: 'text', text })),
      }
  }
}

function toPart(part: DecisionPartBody): ContentPart {
  switch (part.type) {
    case 'input_text':
      return { type: 'text', text: part.text }
    case 'input_json':
      return { type: 'text', text: part.data }
    case 'input_image':
      return { type: 'image_url', image_url: { url: part.image_url, detail: part.detail ?? undefined } }
    default:
      return part
  }
}

const SOUGHT = { x_box: 'box', x_point: 'point', x_clip: 'clip' } as const

function toQuestion(question: DecisionQuestionBody, param: Path): Question {
  switch (question.type) {
    case 'x_box':
    case 'x_point':
    case 'x_clip':
      return { type: SOUGHT[question.type], param, instructions: question.instructions }
  }
  const asked = { param, instructions: toContent(question.instructions, param) }
  const described = <Of extends { description?: string | null | undefined }>(list: string, options: readonly Of[]) =>
    options.map((option, i) => ({
      ...option,
      description: toDescription(option.description, [...param, list, i, 'description']),
    }))
  switch (question.type) {
    case 'predicate':
      return { type: 'predicate', ...asked, yes: [], no: [] }
    case 'choice':
      return { type: 'choice', ...asked, options: described('choices', question.choices) }
    case 'score':
      return { type: 'score', ...asked, levels: described('levels', question.levels) }
    case 'x_count':
      return { type: 'count', ...asked, most: question.max ?? MOST_COUNTED }
  }
}

function toContent(instructions: Instructions, param: Path): Content {
  if (typeof instructions === 'string') return toDescription(instructions, [...param, 'instructions'])
  return instructions.map((part, i) => ({ part: toPart(part), param: [...param, 'instructions', i] }))
}

function toDescription(text: string | null | undefined, param: Path): Content {
  return text ? [{ part: { type: 'text', text }, param }] : []
}

/** Maps the chat's parameters to the request's: calls are separate items, and an image's URL is a string. */
function paramNames(body: DecisionRequestBody): Names {
  return (path) => {
    const [list, index, key, position] = path
    // Log-probabilities of the reply rate the places found, so a model without them is at fault.
    if (list === 'logprobs') return ['model']
    if (key === 'tool_calls') return [list!, Number(index) + Number(position), 'arguments']
    return isImageAddress(path, body) ? path.slice(0, -1) : path
  }
}

function isImageAddress(path: Path, { input, questions }: Pick<DecisionRequestBody, 'input' | 'questions'>): boolean {
  const [list, index, field, position, ...rest] = path
  if (rest.join('.') !== 'image_url.url') return false
  const holder: unknown = (list === 'input' ? input : questions)[Number(index)]
  return (holder as Record<string, readonly DecisionPartBody[]>)[field!]?.[Number(position)]?.type === 'input_image'
}
