import type {
  Content,
  ContentPart,
  DecisionRequest,
  Message,
  PlacedMessage,
  Question,
  ToolCall,
} from '../../conversation/index.ts'
import { ApiError, invalidRequest } from '../../lib/errors.ts'
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

export function toDecisionRequest({ input, questions, x_calibrated }: DecisionRequestBody): DecisionRequest {
  return {
    input: typeof input === 'string' ? [userText(input)] : toMessages(input),
    questions: questions.map((question, index) => toQuestion(question, `questions[${index}]`)),
    calibrated: x_calibrated ?? true,
  }
}

function userText(content: string): PlacedMessage {
  return { message: { role: 'user', content }, param: 'input', places: ['input'] }
}

/** Calls that follow one another are those of one turn. @throws ApiError 400 for an output without its call. */
function toMessages(items: readonly DecisionItemBody[]): PlacedMessage[] {
  const messages: PlacedMessage[] = []
  const calls = new Set<string>()
  /** The calls of the turn that may still go on. */
  let turn: ToolCall[] | null = null
  for (const [index, item] of items.entries()) {
    const param = `input[${index}]`
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
        throw invalidRequest(`No earlier call has the id '${item.call_id.slice(0, 100)}'`, `${param}.call_id`)
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

function toToolMessage({ call_id: id, output }: OutputItem, param: string): PlacedMessage {
  const content = typeof output === 'string' ? output : output.map(toPart)
  const places = typeof output === 'string' ? [`${param}.output`] : output.map((_, part) => `${param}.output[${part}]`)
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

function toQuestion(question: DecisionQuestionBody, param: string): Question {
  switch (question.type) {
    case 'predicate':
      return { type: 'predicate', param, instructions: toContent(question.instructions, param), yes: [], no: [] }
    case 'choice':
      return {
        type: 'choice',
        param,
        instructions: toContent(question.instructions, param),
        options: question.choices.map(({ value, description }, i) => ({
          value,
          description: toDescription(description, `${param}.choices[${i}].description`),
        })),
      }
    case 'score':
      return {
        type: 'score',
        param,
        instructions: toContent(question.instructions, param),
        levels: question.levels.map(({ label, description }, i) => ({
          label,
          description: toDescription(description, `${param}.levels[${i}].description`),
        })),
      }
    case 'x_count':
      return {
        type: 'count',
        param,
        instructions: toContent(question.instructions, param),
        most: question.max ?? MOST_COUNTED,
      }
    case 'x_box':
      return { type: 'box', param, instructions: question.instructions }
    case 'x_point':
      return { type: 'point', param, instructions: question.instructions }
    case 'x_clip':
      return { type: 'clip', param, instructions: question.instructions }
  }
}

function toContent(instructions: Instructions, param: string): Content {
  if (typeof instructions === 'string') return toDescription(instructions, `${param}.instructions`)
  return instructions.map((part, i) => ({ part: toPart(part), param: `${param}.instructions[${i}]` }))
}

function toDescription(text: string | null | undefined, param: string): Content {
  return text ? [{ part: { type: 'text', text }, param }] : []
}

/** Names a parameter as this wire does: a picture's address is no object, and the arguments of calls are items. */
export function withWireParam(error: unknown, { input, questions }: DecisionRequestBody): unknown {
  if (!(error instanceof ApiError) || error.param === null) return error
  const param = error.param
    .replace(/^input\[(\d+)\]\.tool_calls\[(\d+)\]\.function\.arguments$/, (_, item, call) => {
      return `input[${Number(item) + Number(call)}].arguments`
    })
    .replace(/^(.*)\.image_url\.url$/, (whole, part) =>
      isInputImage(part, { input, questions }) ? `${part}.image_url` : whole,
    )
  const { message, status, type, code, retryAfter, cause } = error
  return new ApiError(message, {
    status,
    type,
    code,
    cause,
    param,
    ...(retryAfter === undefined ? {} : { retryAfter }),
  })
}

function isInputImage(param: string, { input, questions }: Pick<DecisionRequestBody, 'input' | 'questions'>): boolean {
  const [, list, index, part] =
    /^(input|questions)\[(\d+)\]\.(?:content|output|instructions)\[(\d+)\]$/.exec(param) ?? []
  if (list === undefined) return false
  const holder: unknown = list === 'input' ? input[Number(index)] : questions[Number(index)]
  const { content, output, instructions } = holder as Record<string, readonly DecisionPartBody[] | undefined>
  return (content ?? output ?? instructions)?.[Number(part)]?.type === 'input_image'
}
