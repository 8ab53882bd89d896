import type { Compatibility } from '../../../config/compatibility.ts'
import {
  type ChoiceEvent,
  type FinishReason,
  ReplyCollector,
  type ReplyEvent,
  type ReplyFinish,
  type WholeReply,
} from '../../../conversation/reply/reply.ts'
import { totalUsage, type Usage } from '../../../conversation/reply/usage.ts'
import type { MeteredRequest } from '../../http/record/metering.ts'
import type { Frames, ReplyWriter } from '../serve-chat.ts'
import { toLogProbs } from './log-probs.ts'
import { type CallDelta, toCallDelta, toDelta, toMessageBody } from './reply-message.ts'
import type { ChatCompletionBody, ChatCompletionChunkBody, UsageBody } from './wire/chat-response.ts'

/** Fields that a completion and all its chunks share. */
export interface Heading {
  readonly id: string
  readonly created: number
  readonly model: string
  /** OpenAI's `system_fingerprint`; null if there is none, or not yet. */
  readonly fingerprint: string | null
}

export interface CompletionForm {
  /** Whether the reply has log-probabilities. */
  readonly rated: boolean
  /** Whether a stream includes usage: in the finish by the contract, in a later chunk without choices by OpenAI. */
  readonly tellsUsage: boolean
  /** Whether a stream has the form of Mistral's API: each call in one chunk, and usage only in the finish. */
  readonly callsAreWhole: boolean
  readonly compatibility: Compatibility
  /** The tokens counted for the request so far. */
  readonly metered: Pick<MeteredRequest, 'tokens'>
}

/** Writes the replies to one chat as a completion. Events without a number belong to the only reply. */
export class CompletionWriter implements ReplyWriter<ReplyEvent | ChoiceEvent> {
  readonly #heading: Heading
  readonly #form: CompletionForm
  readonly #chunks: readonly ChunkWriter[]
  readonly #collectors: readonly ReplyCollector[]
  readonly #replies: WholeReply[] = []
  readonly #finishes: ReplyFinish[] = []
  #last = ''

  /** @param count the number of replies. */
  constructor(heading: Heading, form: CompletionForm, count: number) {
    this.#heading = heading
    this.#form = form
    this.#chunks = Array.from({ length: count }, (_, index) => new ChunkWriter(heading, form, index))
    this.#collectors = Array.from({ length: count }, () => new ReplyCollector())
  }

  begin(stream: Frames): void {
    for (const chunks of this.#chunks) stream.send(chunks.first())
  }

  write(numbered: ReplyEvent | ChoiceEvent, stream: Frames): string | null {
    const { choice, event }: ChoiceEvent = 'choice' in numbered ? numbered : { choice: 0, event: numbered }
    const reason = event.type === 'finish' ? this.#ended(event) : null
    const chunks = this.#chunks[choice]!.of(event, reason === null ? null : totalUsage(this.#finishes))
    if (reason !== null) this.#last = chunks.pop()!
    for (const chunk of chunks) stream.send(chunk)
    return reason
  }

  end(stream: Frames): void {
    stream.send(this.#last)
    const { tellsUsage, compatibility, metered } = this.#form
    if (tellsUsage && compatibility === 'openai') {
      stream.send(this.#chunks[0]!.usage(toOpenAiUsage(totalUsage(this.#finishes), metered)))
    }
    stream.send('[DONE]')
  }

  collect(numbered: ReplyEvent | ChoiceEvent): string | null {
    const { choice, event } = 'choice' in numbered ? numbered : { choice: 0, event: numbered }
    const reply = this.#collectors[choice]!.take(event)
    if (reply === null) return null
    this.#replies[choice] = reply
    const ended = this.#ended(reply.finish)
    return ended === null ? null : this.#replies[0]!.finish.reason
  }

  /** @returns the reason of the last finish. */
  #ended(finish: ReplyFinish): string | null {
    return this.#finishes.push(finish) === this.#chunks.length ? finish.reason : null
  }

  body(): ChatCompletionBody {
    const { rated, compatibility, metered } = this.#form
    // The contract has no such fields; OpenAI's clients may expect a null.
    const isOpenAi = compatibility === 'openai'
    const none = isOpenAi ? { logprobs: null } : {}
    const { id, created, model, fingerprint } = this.#heading
    const usage = totalUsage(this.#finishes)
    return {
      id,
      object: 'chat.completion',
      created,
      model,
      ...(fingerprint === null ? {} : { system_fingerprint: fingerprint }),
      choices: this.#replies.map((reply, index) => ({
        index,
        message: { ...toMessageBody(reply), ...(isOpenAi ? { refusal: null } : {}) },
        ...(rated ? { logprobs: toLogProbs(reply.logProbs, reply.finish.places) } : none),
        finish_reason: toReason(reply.finish, compatibility),
      })),
      usage: isOpenAi ? toOpenAiUsage(usage, metered) : toUsage(usage),
    }
  }
}

/** Writes the chunks of one reply as JSON: the role, the pieces, and the finish. */
class ChunkWriter {
  /** The constant text of all chunks around the delta, written once. */
  #before = ''
  #after = ''
  #fingerprint: string | null = null
  /** A call that is sent when it is complete. */
  #call: CallDelta | null = null
  readonly #heading: Heading
  readonly #form: CompletionForm
  readonly #index: number

  /** @param index of the choice. */
  constructor(heading: Heading, form: CompletionForm, index: number) {
    this.#heading = heading
    this.#form = form
    this.#index = index
    this.#writeAround()
  }

  #writeAround(): void {
    this.#fingerprint = this.#heading.fingerprint
    const [before, after] = this.#write(SEAM).split(JSON.stringify(SEAM))
    this.#before = before!
    this.#after = after!
  }

  first(): string {
    return this.#write({ role: 'assistant', content: '' })
  }

  /** @param total the usage of all replies, with the finish of the last one. */
  of(event: ReplyEvent, total: Usage | null): string[] {
    if (!this.#form.callsAreWhole) return [this.#pieceOf(event, total)]
    if (event.type === 'tool_arguments') {
      this.#call!.function.arguments += event.text
      return []
    }
    const whole = this.#call === null ? [] : [this.#write({ tool_calls: [this.#call] })]
    this.#call = event.type === 'tool_call' ? toCallDelta(event) : null
    return this.#call === null ? [...whole, this.#pieceOf(event, total)] : whole
  }

  #pieceOf(event: ReplyEvent, total: Usage | null): string {
    const { logProbs } = event
    if (event.type !== 'finish') {
      const delta = toDelta(event)
      if (this.#fingerprint !== this.#heading.fingerprint) this.#writeAround()
      return logProbs === undefined
        ? this.#before + JSON.stringify(delta) + this.#after
        : this.#write(delta, { logProbs })
    }
    const { tellsUsage, compatibility, callsAreWhole } = this.#form
    const isTold = callsAreWhole || (tellsUsage && compatibility === 'contract')
    const usage = total !== null && isTold ? toUsage(total) : null
    return this.#write({}, { logProbs, places: event.places, finish: toReason(event, compatibility), usage })
  }

  /** The last chunk of all, as in OpenAI's API. */
  usage(usage: UsageBody): string {
    return JSON.stringify(this.#chunk([], usage))
  }

  #write(delta: Choice['delta'], { logProbs, places, finish = null, usage = null }: ChunkRest = {}): string {
    const { rated } = this.#form
    const isEmpty = logProbs === undefined && places === undefined
    const logprobs = rated ? { logprobs: isEmpty ? null : toLogProbs(logProbs ?? [], places) } : {}
    return JSON.stringify(this.#chunk([{ index: this.#index, delta, ...logprobs, finish_reason: finish }], usage))
  }

  #chunk(choices: readonly Choice[], usage: UsageBody | null): ChatCompletionChunkBody {
    const { id, created, model, fingerprint } = this.#heading
    return {
      id,
      object: 'chat.completion.chunk',
      created,
      model,
      ...(fingerprint === null ? {} : { system_fingerprint: fingerprint }),
      choices: [...choices],
      ...(this.#form.tellsUsage || usage !== null ? { usage } : {}),
    }
  }
}

interface ChunkRest {
  readonly logProbs?: ReplyEvent['logProbs']
  readonly places?: ReplyFinish['places']
  readonly finish?: Choice['finish_reason']
  readonly usage?: UsageBody | null
}

type Choice = ChatCompletionChunkBody['choices'][number]

/** A delta that cannot occur elsewhere in a chunk: a model's name may be any text, but has no unescaped quote. */
const SEAM: Choice['delta'] = { content: 'delta' }

/** Some of OpenAI's clients lose a reply with an unknown reason. The reply after an interrupted thought is complete. */
function toReason({ reason }: ReplyFinish, compatibility: Compatibility): FinishReason {
  return compatibility === 'openai' && reason === 'interrupted' ? 'stop' : reason
}

/** Usage as the contract defines it: its replies have no other fields. */
function toUsage({ promptTokens, completionTokens, audioTokens }: Usage): UsageBody {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    ...(audioTokens === null ? {} : { prompt_tokens_details: { audio_tokens: audioTokens } }),
  }
}

/**
 * Usage with the details of OpenAI's API. The rounds of one request, such as those of the focus tool, share cached
 * tokens.
 */
export function toOpenAiUsage(usage: Usage, { tokens }: CompletionForm['metered']): UsageBody {
  const { promptTokens, imageTokens, audioTokens, reasoningTokens } = usage
  return {
    ...toUsage(usage),
    prompt_tokens_details: {
      audio_tokens: audioTokens ?? 0,
      image_tokens: imageTokens,
      cached_tokens: Math.min(tokens.cachedTokens, promptTokens),
    },
    completion_tokens_details: { reasoning_tokens: reasoningTokens },
  }
}
