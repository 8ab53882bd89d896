import type { ReplyPiece } from '../../../conversation/reply/reply-piece.ts'
import { parseToWrite } from '../../../lib/json/parse-json.ts'
import type { BlockBody, BlockEventBody } from './wire/message-response.ts'

/**
 * Converts the pieces of a reply to the events of a message's blocks. Each block ends before the next one begins.
 */
export class MessageBlocks {
  readonly #signature: string
  readonly #showsThinking: boolean
  #open: BlockBody['type'] | null = null
  #index = -1

  /** @param signature of thoughts. Clients need one, but the server never checks it. */
  constructor({ signature, showsThinking }: { readonly signature: string; readonly showsThinking: boolean }) {
    this.#signature = signature
    this.#showsThinking = showsThinking
  }

  take(piece: ReplyPiece): BlockEventBody[] {
    switch (piece.type) {
      case 'text': {
        const events = this.#within('text', { type: 'text', text: '' })
        return [...events, this.#delta({ type: 'text_delta', text: piece.text })]
      }
      case 'reasoning': {
        const events = this.#within('thinking', { type: 'thinking', thinking: '', signature: '' })
        return this.#showsThinking ? [...events, this.#delta({ type: 'thinking_delta', thinking: piece.text })] : events
      }
      case 'tool_call': {
        const { name } = piece
        const id = piece.id.replace(/^call_/, 'toolu_')
        return this.#begin({ type: 'tool_use', id, name, input: {}, caller: { type: 'direct' } })
      }
      case 'tool_arguments':
        return [this.#delta({ type: 'input_json_delta', partial_json: piece.text })]
    }
  }

  end(): BlockEventBody[] {
    if (this.#open === null) return []
    const stop: BlockEventBody = { type: 'content_block_stop', index: this.#index }
    const isThought = this.#open === 'thinking'
    this.#open = null
    return isThought ? [this.#delta({ type: 'signature_delta', signature: this.#signature }), stop] : [stop]
  }

  #within(type: BlockBody['type'], block: BlockBody): BlockEventBody[] {
    return this.#open === type ? [] : this.#begin(block)
  }

  #begin(block: BlockBody): BlockEventBody[] {
    const events = this.end()
    this.#open = block.type
    this.#index++
    return [...events, { type: 'content_block_start', index: this.#index, content_block: block }]
  }

  #delta(delta: Extract<BlockEventBody, { type: 'content_block_delta' }>['delta']): BlockEventBody {
    return { type: 'content_block_delta', index: this.#index, delta }
  }
}

/** Collects the blocks of a message that is not streamed. */
export class BlockCollector {
  readonly blocks: BlockBody[] = []
  #json = ''

  add(event: BlockEventBody): void {
    if (event.type === 'content_block_start') {
      this.blocks.push(event.content_block)
      this.#json = ''
      return
    }
    const block = this.blocks[event.index]!
    if (event.type === 'content_block_stop') {
      // Truncated arguments are not JSON; the reply's stop reason then says that it was truncated.
      if (block.type === 'tool_use') block.input = parseToWrite(this.#json, {}) as Record<string, unknown>
      return
    }
    const { delta } = event
    if (delta.type === 'text_delta' && block.type === 'text') block.text += delta.text
    else if (delta.type === 'thinking_delta' && block.type === 'thinking') block.thinking += delta.thinking
    else if (delta.type === 'signature_delta' && block.type === 'thinking') block.signature = delta.signature
    else if (delta.type === 'input_json_delta') this.#json += delta.partial_json
  }
}
