import type { FinishedReply, ReplyPiece, Usage } from './answers.ts'
import { readEvents } from './event-stream.ts'
import { ServerError } from './server-error.ts'

interface Chunk {
  readonly choices?: readonly {
    readonly delta?: { readonly content?: string | null; readonly reasoning_content?: string | null }
    readonly finish_reason?: string | null
  }[]
  readonly usage?: Usage | null
  readonly error?: { readonly message: string; readonly code?: string | null }
}

/**
 * Reads the events of a chat completion.
 * @param onPiece called with each piece; the next one is read when it resolves.
 * @returns the whole reply; null if the stream ends early.
 * @throws ServerError for an error among the events.
 */
export async function readReply(
  bytes: AsyncIterable<Uint8Array>,
  onPiece: (piece: ReplyPiece) => Promise<void> | void,
): Promise<FinishedReply | null> {
  let content = ''
  let reasoning = ''
  let finishReason: string | null = null
  let usage: Usage | null = null
  for await (const data of readEvents(bytes)) {
    if (data === '[DONE]') return { content, reasoning, finishReason, usage }
    const chunk = parseChunk(data)
    if (chunk.error) throw errorWithin(chunk.error)
    const [choice] = chunk.choices ?? []
    const piece = { content: choice?.delta?.content ?? '', reasoning: choice?.delta?.reasoning_content ?? '' }
    content += piece.content
    reasoning += piece.reasoning
    finishReason = choice?.finish_reason ?? finishReason
    usage = chunk.usage ?? usage
    if (piece.content !== '' || piece.reasoning !== '') await onPiece(piece)
  }
  return null
}

function parseChunk(data: string): Chunk {
  try {
    return JSON.parse(data) as Chunk
  } catch {
    throw new ServerError('the server sent an event that is not JSON', { status: 502 })
  }
}

/** The error of a reply that had begun. A server that shuts down ends it like one that is too busy. */
function errorWithin({ message, code = null }: NonNullable<Chunk['error']>): ServerError {
  return code === 'model_overloaded'
    ? new ServerError(message, { status: 503, code, retryAfter: 1 })
    : new ServerError(message, { status: 500, code })
}
