import type { ReplyEvent, ReplyFinish } from '../../../conversation/reply/reply.ts'
import { AnnotationScanner } from '../../../grounding/annotation-scanner.ts'
import { itemId } from '../../../responses/response-id.ts'
import { toLogProbs } from '../openai/log-probs.ts'
import { toAnnotations } from './annotations.ts'
import { writtenThought } from './input-messages.ts'
import type { OutputItemBody, ResponseEventBody, TokenLogProbBody } from './wire/response.ts'
import type { PlacedFunction } from './wire/response-request.ts'

type Message = Extract<OutputItemBody, { type: 'message' }>
type Reasoning = Extract<OutputItemBody, { type: 'reasoning' }>
type Call = Extract<OutputItemBody, { type: 'function_call' }>

export interface ItemOptions {
  /** The id of the response. */
  readonly id: string
  /** Whether the texts may hold annotations. */
  readonly annotated: boolean
  readonly functions: readonly PlacedFunction[]
  /** Whether thoughts are summaries, in place of content. */
  readonly summarised: boolean
  /** Whether thoughts have `encrypted_content`. */
  readonly encrypted: boolean
}

/** Converts the events of a reply to the items of a response and their events. */
export class ResponseItems {
  readonly #options: ItemOptions
  readonly #items: OutputItemBody[] = []
  #open: OutputItemBody | null = null
  #scanner = new AnnotationScanner()

  constructor(options: ItemOptions) {
    this.#options = options
  }

  /** The items so far. Incomplete items are in progress. */
  get all(): readonly OutputItemBody[] {
    return this.#items
  }

  push(event: Exclude<ReplyEvent, ReplyFinish>): ResponseEventBody[] {
    const events: ResponseEventBody[] = []
    switch (event.type) {
      case 'text': {
        const logprobs = event.logProbs === undefined ? [] : toLogProbs(event.logProbs).content
        this.#addText(this.#message(events), event.text, logprobs, events)
        return events
      }
      case 'reasoning': {
        const item = this.#reasoning(events)
        const [summary] = item.summary
        if (summary) {
          summary.text += event.text
          events.push({ type: 'response.reasoning_summary_text.delta', ...this.#summary(item), delta: event.text })
        } else {
          item.content[0]!.text += event.text
          events.push({ type: 'response.reasoning_text.delta', ...this.#part(item), delta: event.text })
        }
        return events
      }
      case 'tool_call':
        this.#begin(
          {
            id: this.#id('fc'),
            type: 'function_call',
            status: 'in_progress',
            call_id: event.id,
            ...this.#options.functions.find(({ tool }) => tool.name === event.name)!.called,
            arguments: '',
          },
          events,
        )
        return events
      case 'tool_arguments': {
        // The arguments of a call come before the next one begins.
        const item = this.#open as Call
        item.arguments += event.text
        events.push({ type: 'response.function_call_arguments.delta', ...this.#at(item), delta: event.text })
        return events
      }
    }
  }

  /** Completes the items. A reply without any text or call has an empty message. */
  end({ reason, logProbs }: ReplyFinish): ResponseEventBody[] {
    const events: ResponseEventBody[] = []
    if (!this.#items.some(({ type }) => type !== 'reasoning')) this.#message(events)
    const message = this.#items.findLast((item) => item.type === 'message')
    // Log-probabilities that no text has carried. Those of calls belong to no text.
    if (logProbs !== undefined && message !== undefined && message === this.#open) {
      message.content[0]!.logprobs.push(...toLogProbs(logProbs).content)
    }
    this.#close(events, reason === 'length' ? 'incomplete' : 'completed')
    return events
  }

  #addText(item: Message, text: string, logprobs: TokenLogProbBody[], events: ResponseEventBody[]): void {
    const part = item.content[0]!
    part.text += text
    part.logprobs.push(...logprobs)
    events.push({ type: 'response.output_text.delta', ...this.#part(item), delta: text, logprobs })
    if (this.#options.annotated) this.#annotate(item, this.#scanner.push(text), events)
  }

  #annotate(item: Message, found: ReturnType<AnnotationScanner['push']>, events: ResponseEventBody[]): void {
    const part = item.content[0]!
    for (const annotation of found.flatMap((placed) => toAnnotations(placed, part.text))) {
      const annotation_index = part.annotations.push(annotation) - 1
      events.push({
        type: 'response.output_text.annotation.added',
        ...this.#part(item),
        annotation_index,
        annotation,
      })
    }
  }

  /** Returns the message that is being written, or a new one. */
  #message(events: ResponseEventBody[]): Message {
    if (this.#open?.type === 'message') return this.#open
    this.#scanner = new AnnotationScanner()
    const item: Message = {
      id: this.#id('msg'),
      type: 'message',
      status: 'in_progress',
      role: 'assistant',
      content: [],
    }
    return this.#beginPart(item, { type: 'output_text', text: '', annotations: [], logprobs: [] }, events)
  }

  #reasoning(events: ResponseEventBody[]): Reasoning {
    if (this.#open?.type === 'reasoning') return this.#open
    const item: Reasoning = { id: this.#id('rs'), type: 'reasoning', summary: [], content: [], status: 'in_progress' }
    if (!this.#options.summarised) return this.#beginPart(item, { type: 'reasoning_text', text: '' }, events)
    this.#begin(item, events)
    const part = { type: 'summary_text' as const, text: '' }
    events.push({ type: 'response.reasoning_summary_part.added', ...this.#summary(item), part: { ...part } })
    item.summary.push(part)
    return item
  }

  #beginPart<Item extends Message | Reasoning>(
    item: Item,
    part: Item['content'][number],
    events: ResponseEventBody[],
  ): Item {
    this.#begin(item, events)
    events.push({ type: 'response.content_part.added', ...this.#part(item), part: structuredClone(part) })
    ;(item.content as (typeof part)[]).push(part)
    return item
  }

  #begin(item: OutputItemBody, events: ResponseEventBody[]): void {
    this.#close(events, 'completed')
    this.#open = item
    this.#items.push(item)
    // A copy: the item may change again before its event is sent.
    const copy = structuredClone(item)
    events.push({ type: 'response.output_item.added', output_index: this.#items.length - 1, item: copy })
  }

  #close(events: ResponseEventBody[], status: 'completed' | 'incomplete'): void {
    const item = this.#open
    if (item === null) return
    this.#open = null
    item.status = status
    if (item.type === 'message') {
      if (this.#options.annotated) this.#annotate(item, this.#scanner.end(), events)
      const { text, logprobs } = item.content[0]!
      events.push({ type: 'response.output_text.done', ...this.#part(item), text, logprobs })
      events.push({ type: 'response.content_part.done', ...this.#part(item), part: item.content[0]! })
    } else if (item.type === 'reasoning') {
      const [[summary], [content]] = [item.summary, item.content]
      const { text } = (summary ?? content)!
      if (this.#options.encrypted) item.encrypted_content = writtenThought(text)
      if (summary) {
        events.push({ type: 'response.reasoning_summary_text.done', ...this.#summary(item), text })
        events.push({ type: 'response.reasoning_summary_part.done', ...this.#summary(item), part: summary })
      } else {
        events.push({ type: 'response.reasoning_text.done', ...this.#part(item), text })
        events.push({ type: 'response.content_part.done', ...this.#part(item), part: content! })
      }
    } else {
      const { name, arguments: values } = item
      events.push({ type: 'response.function_call_arguments.done', ...this.#at(item), name, arguments: values })
    }
    events.push({ type: 'response.output_item.done', output_index: this.#items.indexOf(item), item })
  }

  #id(prefix: 'msg' | 'rs' | 'fc'): string {
    return itemId(this.#options.id, prefix, 'o', this.#items.length)
  }

  #at(item: OutputItemBody) {
    return { item_id: item.id, output_index: this.#items.indexOf(item) }
  }

  #summary(item: Reasoning) {
    return { ...this.#at(item), summary_index: 0 }
  }

  #part(item: Message | Reasoning) {
    return { ...this.#at(item), content_index: 0 }
  }
}
