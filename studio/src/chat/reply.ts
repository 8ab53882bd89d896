import { computed, signal } from '@preact/signals'
import { withUploads } from '../media/attachment.ts'
import { callEvents } from '../server/call.ts'
import { type Failure, isAbort, toFailure } from '../server/failure.ts'
import { type Wait, withPatience } from '../server/patience.ts'
import type { ChatChunk, ToolCall, Usage } from '../server/wire.ts'

export type ReplyStatus = 'waiting' | 'streaming' | 'done' | 'stopped' | 'failed'

/** What a finished reply is kept as. */
export interface SavedReply {
  readonly text: string
  readonly thoughts: string
  readonly toolCalls: readonly ToolCall[]
  readonly finishReason: string | null
  readonly usage: Usage | null
  readonly firstMs: number | null
  readonly totalMs: number | null
}

/** A reply while it arrives and afterwards. */
export class Reply {
  readonly text = signal('')
  readonly thoughts = signal('')
  readonly toolCalls = signal<readonly ToolCall[]>([])
  readonly status = signal<ReplyStatus>('waiting')
  readonly isBusy = computed(() => this.status.value === 'waiting' || this.status.value === 'streaming')
  readonly finishReason = signal<string | null>(null)
  readonly usage = signal<Usage | null>(null)
  readonly failure = signal<Failure | null>(null)
  /** Why the page waits; null while it does not. */
  readonly wait = signal<Wait | null>(null)
  /** Milliseconds from sending to the first text or thought, and to the end. */
  readonly firstMs = signal<number | null>(null)
  readonly totalMs = signal<number | null>(null)
  #abort: AbortController | null = null

  /** Sends a chat completion and takes in what comes; the outcome, good or bad, is in the signals. */
  async run(bodyOf: () => Promise<object>): Promise<void> {
    this.#reset()
    const abort = new AbortController()
    this.#abort = abort
    try {
      const onWait = (wait: Wait | null) => {
        this.wait.value = wait
      }
      await withUploads(bodyOf, (body) => withPatience(() => this.#stream(body, abort.signal), onWait, abort.signal))
      this.status.value = 'done'
    } catch (error) {
      if (isAbort(error)) this.status.value = 'stopped'
      else {
        this.failure.value = toFailure(error)
        this.status.value = 'failed'
      }
    } finally {
      this.wait.value = null
      this.#abort = null
    }
  }

  stop(): void {
    this.#abort?.abort()
  }

  save(): SavedReply {
    return {
      text: this.text.value,
      thoughts: this.thoughts.value,
      toolCalls: this.toolCalls.value,
      finishReason: this.finishReason.value,
      usage: this.usage.value,
      firstMs: this.firstMs.value,
      totalMs: this.totalMs.value,
    }
  }

  static restore(saved: SavedReply): Reply {
    const reply = new Reply()
    reply.text.value = saved.text
    reply.thoughts.value = saved.thoughts
    reply.toolCalls.value = saved.toolCalls
    reply.finishReason.value = saved.finishReason
    reply.usage.value = saved.usage
    reply.firstMs.value = saved.firstMs
    reply.totalMs.value = saved.totalMs
    reply.status.value = saved.finishReason === null ? 'stopped' : 'done'
    return reply
  }

  async #stream(body: object, signal: AbortSignal): Promise<void> {
    const started = performance.now()
    const events = callEvents<ChatChunk>('/v1/chat/completions', {
      method: 'POST',
      body: { ...body, stream: true, stream_options: { include_usage: true } },
      signal,
    })
    for await (const { choices, usage } of events) {
      const [choice] = choices ?? []
      const { content, reasoning_content: thought, tool_calls: calls } = choice?.delta ?? {}
      if ((content || thought || calls) && this.firstMs.value === null) {
        this.firstMs.value = performance.now() - started
        this.status.value = 'streaming'
      }
      if (content) this.text.value += content
      if (thought) this.thoughts.value += thought
      for (const call of calls ?? []) this.#addToCall(call)
      if (choice?.finish_reason) this.finishReason.value = choice.finish_reason
      if (usage) this.usage.value = usage
    }
    this.totalMs.value = performance.now() - started
  }

  #addToCall(piece: NonNullable<NonNullable<NonNullable<ChatChunk['choices']>[0]['delta']>['tool_calls']>[0]): void {
    const calls = [...this.toolCalls.value]
    const before = calls[piece.index]
    calls[piece.index] = {
      id: piece.id ?? before?.id ?? '',
      type: 'function',
      function: {
        name: piece.function?.name ?? before?.function.name ?? '',
        arguments: (before?.function.arguments ?? '') + (piece.function?.arguments ?? ''),
      },
    }
    this.toolCalls.value = calls
  }

  #reset(): void {
    this.text.value = ''
    this.thoughts.value = ''
    this.toolCalls.value = []
    this.finishReason.value = null
    this.usage.value = null
    this.failure.value = null
    this.firstMs.value = null
    this.totalMs.value = null
    this.status.value = 'waiting'
  }
}
