import { randomUUID } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import type { ChoiceEvent, ReplyFinish } from '../../../conversation/reply/reply.ts'
import { totalUsage } from '../../../conversation/reply/usage.ts'
import type { TextRequest } from '../../../conversation/request/text-request.ts'
import type { TokenLogProb } from '../../../inference/contract/generation.ts'
import type { ReadBody } from '../../http/body/body-reader.ts'
import { addCalls } from '../../http/client-call.ts'
import { bodiesOf, type Serving } from '../admission.ts'
import { type ChatSurface, type Frames, type ReplyWriter, serveChat } from '../serve-chat.ts'
import { structureNames, structureOf } from './chat-request.ts'
import { type CompletionForm, toOpenAiUsage } from './completion-writer.ts'
import { finite } from './log-probs.ts'
import { toReplyOptions } from './reply-options.ts'
import {
  type CompletionBody,
  type CompletionLogProbsBody,
  type CompletionRequestBody,
  completionBody,
} from './wire/completion.ts'

/** OpenAI's default. */
const DEFAULT_TOKENS = 16

/** `POST /v1/completions`, which the contract does not have: texts that the model continues. */
export function addCompletions(app: FastifyInstance, serving: Serving): void {
  const surface = completions(serving)
  addCalls(app, { bucket: 'chat', answers: { '/v1/completions': (call) => serveChat(call, serving, surface) } })
}

export function completions({ conversations }: Serving): ChatSurface<ReadBody<CompletionRequestBody>, ChoiceEvent> {
  return {
    ...bodiesOf('completions', completionBody),
    async start({ read: { value: body }, metered, caller, signal }) {
      const request = toTextRequest(body)
      const events = await conversations.startTexts(request, caller, signal)
      return { events, writer: new TextWriter(body, request, metered), streamed: request.streamed }
    },
  }
}

function toTextRequest(body: CompletionRequestBody): TextRequest {
  const { prompt, max_tokens: most, logprobs, stop, stream, n } = body
  return {
    ...toReplyOptions({ ...body, max_tokens: most ?? DEFAULT_TOKENS, logprobs: undefined }),
    topLogProbs: logprobs ?? null,
    prompts: typeof prompt === 'string' || typeof prompt[0] === 'number' ? [prompt as Prompt] : (prompt as Prompt[]),
    echo: body.echo === true,
    choices: n ?? 1,
    stops: typeof stop === 'string' ? [stop] : (stop ?? []),
    structure: structureOf(body),
    names: structureNames(body),
    streamed: stream === true,
  }
}

type Prompt = TextRequest['prompts'][number]
type Choice = CompletionBody['choices'][number]

/** The current state of a completion. */
interface Written {
  text: string
  logProbs: TokenLogProb[]
  reason: Choice['finish_reason']
  /** Where the next token begins in the text. */
  offset: number
  /** Decodes tokens; one character may take several. */
  readonly decoder: InstanceType<typeof TextDecoder>
}

/** Writes the completions of texts, whole or as a stream. */
class TextWriter implements ReplyWriter<ChoiceEvent> {
  readonly #heading: Omit<CompletionBody, 'choices'>
  readonly #body: CompletionRequestBody
  readonly #choices: Written[]
  readonly #finishes: ReplyFinish[] = []
  readonly #metered: CompletionForm['metered']
  #last = ''

  constructor(body: CompletionRequestBody, { prompts, choices }: TextRequest, metered: CompletionForm['metered']) {
    this.#body = body
    this.#metered = metered
    this.#heading = {
      id: `cmpl-${randomUUID().replaceAll('-', '')}`,
      object: 'text_completion',
      created: Math.floor(Date.now() / 1000),
      model: body.model,
    }
    this.#choices = Array.from({ length: prompts.length * choices }, () => {
      return { text: '', logProbs: [], reason: null, offset: 0, decoder: new TextDecoder('utf-8', { ignoreBOM: true }) }
    })
  }

  write({ choice, event }: ChoiceEvent, stream: Frames): string | null {
    const kept = this.#choices[choice]!
    const { length } = kept.text
    const reason = this.collect({ choice, event })
    const choices = [this.#choice(kept, choice, kept.text.slice(length))]
    const chunk = JSON.stringify({ ...this.#heading, choices } satisfies CompletionBody)
    kept.logProbs = []
    if (reason === null) stream.send(chunk)
    else this.#last = chunk
    return reason
  }

  end(stream: Frames): void {
    stream.send(this.#last)
    const { stream_options: options } = this.#body
    if (options?.include_usage === true)
      stream.send(JSON.stringify({ ...this.#heading, choices: [], usage: this.#usage }))
    stream.send('[DONE]')
  }

  collect({ choice, event }: ChoiceEvent): string | null {
    const kept = this.#choices[choice]!
    kept.logProbs.push(...(event.logProbs ?? []))
    if (event.type === 'text') kept.text += event.text
    if (event.type !== 'finish') return null
    // Clients that rate prompts drop the token after a prompt, so it must be present.
    if (this.#body.echo === true && event.end) kept.logProbs.push(event.end)
    kept.reason = event.reason === 'length' ? 'length' : 'stop'
    return this.#finishes.push(event) === this.#choices.length ? event.reason : null
  }

  body(): CompletionBody {
    const choices = this.#choices.map((kept, index) => this.#choice(kept, index, kept.text))
    return { ...this.#heading, choices, usage: this.#usage }
  }

  get #usage() {
    return toOpenAiUsage(totalUsage(this.#finishes), this.#metered)
  }

  #choice(kept: Written, index: number, text: string): Choice {
    return { index, text, logprobs: this.#logProbs(kept), finish_reason: kept.reason }
  }

  #logProbs(kept: Written): CompletionLogProbsBody | null {
    if (typeof this.#body.logprobs !== 'number') return null
    const tokens = kept.logProbs
    const offsets = tokens.map(({ text, bytes }) => {
      const start = kept.offset
      kept.offset += kept.decoder.decode(Uint8Array.from(bytes), { stream: true }).length
      // Tokens that print nothing are in the text only if the client has written them.
      if (bytes.length === 0 && kept.text.startsWith(text, kept.offset)) kept.offset += text.length
      return start
    })
    return {
      tokens: tokens.map(({ text }) => text),
      token_logprobs: tokens.map(({ logProb }) => (Number.isNaN(logProb) ? null : finite(logProb))),
      top_logprobs: tokens.map(({ logProb, top }) => (Number.isNaN(logProb) ? null : byText(top))),
      text_offset: offsets,
    }
  }
}

/**
 * In descending order. If several tokens print the same text, such as parts of characters, the likeliest one counts.
 */
function byText(top: TokenLogProb['top']): Record<string, number> {
  const found = new Map<string, number>()
  for (const { text, logProb } of top) if (!found.has(text)) found.set(text, finite(logProb))
  return Object.fromEntries(found)
}
