import type { ContentPart, Message, ToolCall } from '../../../conversation/request/message.ts'
import type { Path } from '../../../lib/errors/param.ts'
import type { InputFileBody, ItemBody, UserPartBody } from './wire/items.ts'
import { knownName } from './wire/response-request.ts'

/** An item of a conversation, and its place in errors. */
export interface PlacedItem {
  readonly item: ItemBody
  /** `input[2]`; for an item of an earlier response, the parameter that names that response. */
  readonly place: Path
  /** Whether the item is in the request itself, so that its parts have their own places. */
  readonly own: boolean
}

/** The origin of a message, by which errors name it. */
export interface MessagePlace {
  readonly param: Path
  readonly own: boolean
  /** The field that holds its content. */
  readonly field: 'content' | 'output'
  /** The media field of each part that differs from a chat's part; null for the others. */
  readonly sources: readonly (string | null)[]
  /** The items of its calls. */
  readonly calls: readonly Path[]
}

/** The conversation's parts for `input_file` parts. */
export type FileParts = ReadonlyMap<InputFileBody, ContentPart>

type AssistantMessage = Extract<Message, { role: 'assistant' }>

interface Turn {
  readonly message: Message
  readonly place: MessagePlace
  /** Adds a call to an assistant turn; null for other turns. */
  readonly addCall: ((call: ToolCall, place: Path) => void) | null
}

const THOUGHT = 'thought:'

/** The `encrypted_content` of a thought, which clients send back where they keep nothing else of it. It hides nothing. */
export function writtenThought(text: string): string {
  return THOUGHT + Buffer.from(text).toString('base64url')
}

/** Reads it; that of another server is empty. */
function readThought(written: string): string {
  return written.startsWith(THOUGHT) ? Buffer.from(written.slice(THOUGHT.length), 'base64url').toString() : ''
}

/**
 * Converts items to messages. Consecutive assistant items form one turn, as long as they are in the order thought, text,
 * calls.
 */
export function toMessages(items: readonly PlacedItem[], files: FileParts): Turn[] {
  const turns: Turn[] = []
  for (const placed of items) addItem(turns, placed, files)
  // A thought that nothing follows is of no use to the model.
  return turns.filter(({ message }) => !isThoughtAlone(message))
}

function addItem(turns: Turn[], placed: PlacedItem, files: FileParts): void {
  const { item } = placed
  if (item.type === 'reasoning') {
    const thought = (item.content ?? []).map(({ text }) => text).join('\n')
    const summary = (item.summary ?? []).map(({ text }) => text).join('\n')
    const reasoning_content = thought || summary || readThought(item.encrypted_content ?? '')
    if (reasoning_content !== '') turns.push(assistantTurn({ reasoning_content }, placed))
  } else if (item.type === 'function_call') {
    if (!turns.at(-1)?.addCall) turns.push(assistantTurn({}, placed))
    const { call_id: id, arguments: values } = item
    turns.at(-1)!.addCall!({ id, function: { name: knownName(item), arguments: values } }, placed.place)
  } else if (item.type === 'function_call_output') {
    const { call_id: tool_call_id, output } = item
    const content = typeof output === 'string' ? output : output.map((part) => toPart(part, files))
    const place: MessagePlace = { ...at(placed), field: 'output', sources: sourcesOf(output) }
    turns.push({ message: { role: 'tool', tool_call_id, content }, place, addCall: null })
  } else if (item.role === 'assistant') {
    const content = typeof item.content === 'string' ? item.content : item.content.map(toText).join('')
    const last = turns.at(-1)
    const thought = last && isThoughtAlone(last.message) ? turns.pop()!.message : {}
    turns.push(assistantTurn({ ...thought, content }, placed))
  } else if (item.role === 'user') {
    const { content } = item
    turns.push({
      message: { role: 'user', content: typeof content === 'string' ? content : content.map((p) => toPart(p, files)) },
      place: { ...at(placed), sources: sourcesOf(content) },
      addCall: null,
    })
  } else {
    const { role, content } = item
    const texts = typeof content === 'string' ? content : content.map(({ text }) => ({ type: 'text' as const, text }))
    turns.push({ message: { role, content: texts }, place: at(placed), addCall: null })
  }
}

function assistantTurn(fields: Omit<AssistantMessage, 'role' | 'tool_calls'>, placed: PlacedItem): Turn {
  const calls: ToolCall[] = []
  const places: Path[] = []
  return {
    message: { ...fields, role: 'assistant', tool_calls: calls },
    place: { ...at(placed), calls: places },
    addCall: (call, place) => {
      calls.push(call)
      places.push(place)
    },
  }
}

function isThoughtAlone(message: Message): message is AssistantMessage {
  return message.role === 'assistant' && (message.content ?? null) === null && (message.tool_calls ?? []).length === 0
}

function at({ place, own }: PlacedItem): MessagePlace {
  return { param: place, own, field: 'content', sources: [], calls: [] }
}

function toText(part: { type: string; text?: string; refusal?: string }): string {
  return part.text ?? part.refusal ?? ''
}

function toPart(part: UserPartBody, files: FileParts): ContentPart {
  switch (part.type) {
    case 'input_text':
      return { type: 'text', text: part.text }
    case 'input_image': {
      const { image_url: url, file_id, detail } = part
      return typeof file_id === 'string'
        ? { type: 'image_file_id', image_file_id: { file_id, detail } }
        : { type: 'image_url', image_url: { url: url!, detail } }
    }
    case 'input_video':
      return { type: 'video_url', video_url: { url: part.video_url } }
    case 'input_file':
      return files.get(part)!
    default:
      return part
  }
}

function sourcesOf(parts: string | readonly UserPartBody[]): (string | null)[] {
  return typeof parts === 'string' ? [] : parts.map(sourceOf)
}

/** Returns the field with the media of a part; null if it is the same as in a chat. */
function sourceOf(part: UserPartBody): string | null {
  switch (part.type) {
    case 'input_image':
      return typeof part.file_id === 'string' ? 'file_id' : 'image_url'
    case 'input_video':
      return 'video_url'
    case 'input_file':
      return sourceOfFile(part)
    default:
      return null
  }
}

export function sourceOfFile({ file_id, file_url }: InputFileBody): 'file_id' | 'file_url' | 'file_data' {
  if (typeof file_id === 'string') return 'file_id'
  return typeof file_url === 'string' ? 'file_url' : 'file_data'
}
