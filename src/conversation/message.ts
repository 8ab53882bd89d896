/** A conversation as the contract spells it. Positions in it are the `param` of errors, so it keeps the wire's names. */
export type Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage

export interface SystemMessage {
  readonly role: 'system' | 'developer'
  readonly content: string | readonly TextContent[]
}

export interface UserMessage {
  readonly role: 'user'
  readonly content: string | readonly ContentPart[]
}

export interface AssistantMessage {
  readonly role: 'assistant'
  readonly content?: string | readonly TextContent[] | null | undefined
  readonly reasoning_content?: string | null | undefined
  readonly tool_calls?: readonly ToolCall[] | null | undefined
}

export interface ToolCall {
  readonly id: string
  readonly function: {
    readonly name: string
    /** JSON text, as a model wrote it. */
    readonly arguments: string
  }
}

export interface ToolMessage {
  readonly role: 'tool'
  readonly tool_call_id: string
  readonly content: string | readonly ContentPart[]
}

export interface TextContent {
  readonly type: 'text'
  readonly text: string
}

export interface ImageContent {
  readonly type: 'image_url'
  readonly image_url: { readonly url: string }
}

/** Parts that no model of this server takes yet. */
export type OtherMediaContent =
  | { readonly type: 'video_url' | 'image_file_id' | 'video_file_id' | 'audio_url' | 'audio_file_id' | 'input_audio' }
  | { readonly type: 'video_frames'; readonly video_frames: { readonly frames: readonly unknown[] } }

export type ContentPart = TextContent | ImageContent | OtherMediaContent

/** A message and its place in the request, as errors name it: `messages[0]`, `context[2]`, `prompts[1]`. */
export interface PlacedMessage {
  readonly message: Message
  readonly param: string
}

export function placeMessages(messages: readonly Message[], list: 'messages' | 'context'): PlacedMessage[] {
  return messages.map((message, index) => ({ message, param: `${list}[${index}]` }))
}

/** The parts of a message and where they stand; a plain string is one text part. */
export function* partsOf({ message, param }: PlacedMessage): Generator<{ part: ContentPart; param: string }> {
  const place = `${param}.content`
  if (message.content === null || message.content === undefined) return
  if (typeof message.content === 'string') {
    yield { part: { type: 'text', text: message.content }, param: place }
    return
  }
  for (const [position, part] of message.content.entries()) yield { part, param: `${place}[${position}]` }
}
