import type { ReplyMessage } from '../../../conversation/reply/reply.ts'
import type { ReplyPiece } from '../../../conversation/reply/reply-piece.ts'
import type { DeltaBody, ReplyMessageBody } from './wire/chat-response.ts'

/** Converts a whole reply to the message of a response. */
export function toMessageBody({ text, reasoning, toolCalls }: ReplyMessage): ReplyMessageBody {
  return {
    role: 'assistant',
    content: text === '' && toolCalls.length > 0 ? null : text,
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    ...(toolCalls.length === 0
      ? {}
      : {
          tool_calls: toolCalls.map(({ id, name, arguments: values }) => ({
            id,
            type: 'function',
            function: { name, arguments: values },
          })),
        }),
  }
}

/** Converts one piece of a reply to the delta of a chunk. */
export function toDelta(piece: ReplyPiece): DeltaBody {
  switch (piece.type) {
    case 'text':
      return { content: piece.text }
    case 'reasoning':
      return { reasoning_content: piece.text }
    case 'tool_call':
      return { tool_calls: [toCallDelta(piece)] }
    case 'tool_arguments':
      return { tool_calls: [{ index: piece.index, function: { arguments: piece.text } }] }
  }
}

/** The beginning of a call. */
export function toCallDelta({ index, id, name }: Extract<ReplyPiece, { type: 'tool_call' }>) {
  return { index, id, type: 'function' as const, function: { name, arguments: '' } }
}

export type CallDelta = ReturnType<typeof toCallDelta>
