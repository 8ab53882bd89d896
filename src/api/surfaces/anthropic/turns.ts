import type { ContentPart, Message, TextContent } from '../../../conversation/request/message.ts'
import { invalidRequest, say } from '../../../lib/errors/errors.ts'
import type { Path } from '../../../lib/errors/param.ts'
import { dataUrl } from '../data-url.ts'
import type {
  AssistantBlockBody,
  DocumentBlockBody,
  ImageSourceBody,
  MessageParamBody,
  PromptBody,
  ResultPartBody,
  TextsBody,
  ToolResultBody,
  UserBlockBody,
} from './wire/message-request.ts'

/** A conversation as the model sees it, with its messages' places in the request. */
export interface Turns {
  readonly messages: readonly Message[]
  readonly places: readonly MessagePlace[]
}

/** The places of a message's contents in the request. */
export interface MessagePlace {
  readonly param: Path
  /** The blocks of its parts. */
  readonly parts: readonly Path[]
  /** The blocks of its calls. */
  readonly calls: readonly Path[]
}

/** A message whose parts keep their positions. */
interface Draft<Part> {
  readonly content: Part[]
  readonly place: MessagePlace & { readonly parts: Path[]; readonly calls: Path[] }
}

/**
 * A line that Claude Code puts before its instructions. It differs in every request, so the cache would never find a
 * prefix.
 */
const BILLING_LINE = /^x-anthropic-billing-header:/

/**
 * Converts the messages of a request. The instructions come first. Tool results become separate messages before the rest of
 * their turn. Consecutive user messages form one turn, as in Anthropic's API.
 * @throws ApiError 400 for messages without anything that the model sees.
 */
export function toTurns({ system, messages }: Pick<PromptBody, 'system' | 'messages'>): Turns {
  const turns = new TurnList()
  turns.addSystem(system ?? '', ['system'])
  for (const [index, message] of messages.entries()) turns.add(message, ['messages', index, 'content'])
  if (turns.messages.every(({ role }) => role === 'system')) {
    throw invalidRequest(say`The ${['messages']} hold nothing that the model can see`, 'messages')
  }
  return turns
}

class TurnList implements Turns {
  readonly messages: Message[] = []
  readonly places: MessagePlace[] = []
  /** The user's turn that may still continue. */
  #user: Draft<ContentPart> | null = null

  add(message: MessageParamBody, place: Path): void {
    switch (message.role) {
      case 'system':
        this.addSystem(message.content, place)
        return
      case 'assistant':
        this.#addAssistant(blocksAt(message.content, place), place)
        return
      case 'user':
        this.#addUser(blocksAt(message.content, place), place)
    }
  }

  addSystem(texts: TextsBody, place: Path): void {
    const draft = draftAt<TextContent>(place)
    for (const { block, at } of blocksAt(texts, place)) {
      if (block.text !== '' && !BILLING_LINE.test(block.text)) addTo(draft, textOf(block.text), at)
    }
    if (draft.content.length > 0) this.#push({ role: 'system', content: draft.content }, draft.place)
  }

  #addUser(blocks: readonly Placed<UserBlockBody>[], place: Path): void {
    const rest: Placed<ContentPart>[] = []
    for (const { block, at } of blocks) {
      if (block.type === 'tool_result') this.#addResult(block, at)
      else if (isShown(block)) rest.push(...partsOf(block, at))
    }
    if (rest.length === 0) return
    if (this.#user === null) {
      this.#user = draftAt(place)
      this.#push({ role: 'user', content: this.#user.content }, this.#user.place, this.#user)
    } else addTo(this.#user, textOf('\n\n'), place)
    for (const { block, at } of rest) addTo(this.#user, block, at)
  }

  #addResult({ tool_use_id: id, content, is_error: failed }: ToolResultBody, at: Path): void {
    const place = [...at, 'content']
    const draft = draftAt<ContentPart>(at)
    if (failed) addTo(draft, textOf('Error: '), place)
    for (const placed of blocksAt(content ?? '', place)) {
      for (const { block, at } of partsOf(placed.block, placed.at)) addTo(draft, block, at)
    }
    this.#push({ role: 'tool', tool_call_id: id, content: contentOf(draft) }, draft.place)
  }

  #addAssistant(blocks: readonly Placed<AssistantBlockBody>[], place: Path): void {
    const draft = draftAt<TextContent>(place)
    const calls: ToolCallContent[] = []
    let reasoning = ''
    for (const { block, at } of blocks) {
      if (block.type === 'text') addTo(draft, textOf(block.text), at)
      else if (block.type === 'thinking') reasoning += block.thinking
      else if (block.type === 'tool_use') {
        draft.place.calls.push(at)
        calls.push({ id: block.id, function: { name: block.name, arguments: block.input } })
      }
    }
    const message: Message = {
      role: 'assistant',
      content: calls.length > 0 && draft.content.length === 0 ? null : contentOf(draft),
      reasoning_content: reasoning === '' ? null : reasoning,
      tool_calls: calls,
    }
    this.#push(message, draft.place)
  }

  /** @param open the current user turn, if the message belongs to one. */
  #push(message: Message, place: MessagePlace, open: Draft<ContentPart> | null = null): void {
    this.#user = open
    this.messages.push(message)
    this.places.push(place)
  }
}

interface ToolCallContent {
  readonly id: string
  readonly function: { readonly name: string; readonly arguments: string }
}

function draftAt<Part>(param: Path): Draft<Part> {
  return { content: [], place: { param, parts: [], calls: [] } }
}

function addTo<Part>({ content, place }: Draft<Part>, part: Part, at: Path): void {
  content.push(part)
  place.parts.push(at)
}

function contentOf<Part>({ content }: Draft<Part>): readonly Part[] | string {
  return content.length === 0 ? '' : content
}

function textOf(text: string): TextContent {
  return { type: 'text', text }
}

interface Placed<Block> {
  readonly block: Block
  readonly at: Path
}

/** A string is one block of text. */
function blocksAt<Block>(content: string | readonly Block[], place: Path): Placed<Block | TextContent>[] {
  if (typeof content === 'string') return [{ block: textOf(content), at: place }]
  return content.map((block, index) => ({ block, at: [...place, index] }))
}

function isShown(block: UserBlockBody): block is Extract<UserBlockBody, ResultPartBody> {
  return ['text', 'image', 'document', 'search_result'].includes(block.type)
}

function partsOf(block: ResultPartBody, at: Path): Placed<ContentPart>[] {
  switch (block.type) {
    case 'text':
      return [{ block: textOf(block.text), at }]
    case 'image':
      return [{ block: imageOf(block.source), at }]
    case 'document':
      return documentOf(block, at)
    case 'search_result': {
      const { title, source, content } = block
      return [{ block: textOf(`${title}\n${source}\n\n${content.map(({ text }) => text).join('\n')}`), at }]
    }
    case 'tool_reference':
      return [{ block: textOf(block.tool_name), at }]
  }
}

function documentOf({ source, title, context, pages, page_text }: DocumentBlockBody, at: Path): Placed<ContentPart>[] {
  const about = [title, context].map((text) => (text ? `${text}\n\n` : '')).join('')
  if (source.type === 'text') return [{ block: textOf(about + source.data), at }]
  const head = about === '' ? [] : [{ block: textOf(about), at }]
  if (source.type !== 'content')
    return [...head, { block: { type: 'file', file: { ...fileOf(source), pages, page_text } }, at }]
  const chunks = blocksAt(source.content, [...at, 'source', 'content']).flatMap((chunk, index) => [
    ...(index === 0 ? [] : [{ block: textOf('\n'), at: chunk.at }]),
    ...partsOf(chunk.block, chunk.at),
  ])
  return [...head, ...chunks]
}

function fileOf(source: ImageSourceBody) {
  switch (source.type) {
    case 'base64':
      return { file_data: source.data }
    case 'url':
      return { file_url: source.url }
    case 'file':
      return { file_id: source.file_id }
  }
}

function imageOf(source: ImageSourceBody): ContentPart {
  switch (source.type) {
    case 'base64':
      return { type: 'image_url', image_url: { url: dataUrl(source.data) } }
    case 'url':
      return { type: 'image_url', image_url: { url: source.url } }
    case 'file':
      return { type: 'image_file_id', image_file_id: { file_id: source.file_id } }
  }
}
