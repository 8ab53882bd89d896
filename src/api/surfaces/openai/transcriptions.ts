import type { FastifyInstance } from 'fastify'
import type { ReplyEvent, ReplyFinish } from '../../../conversation/reply/reply.ts'
import type { ChatRequest } from '../../../conversation/request/chat-request.ts'
import type { ContentPart, Message } from '../../../conversation/request/message.ts'
import { type SpeechTask, transcriptionChat } from '../../../conversation/transcription.ts'
import { invalidRequest, say } from '../../../lib/errors/errors.ts'
import type { Names } from '../../../lib/errors/param.ts'
import type { InlineMedia } from '../../../media/inline-media.ts'
import type { ApiCall } from '../../http/api-call.ts'
import type { FormFields } from '../../http/body/body-reader.ts'
import { addCalls } from '../../http/client-call.ts'
import { namedModel } from '../../http/named-model.ts'
import { parseBody } from '../../http/wire/parse.ts'
import type { Serving } from '../admission.ts'
import { type ChatSurface, type Frames, type ReplyWriter, serveChat } from '../serve-chat.ts'
import { toReplyOptions } from './reply-options.ts'
import {
  TRANSCRIPTION_LISTS,
  type TranscriptionBody,
  type TranscriptionEventBody,
  type TranscriptionFields,
  type TranscriptionUsageBody,
  transcriptionFields,
  type VerboseTranscriptionBody,
} from './wire/transcription.ts'

interface Asked {
  readonly fields: TranscriptionFields
  readonly sound: ContentPart
  /** The request's field with the recording: errors about the conversation name it. */
  readonly source: 'file' | 'file_url' | 'file_id'
}

interface TranscriptForm {
  /** The mark at which the transcript begins; null if the whole reply is the transcript. */
  readonly mark: string | null
  readonly isText: boolean
  readonly model: string
  /** The language, as named in the request. */
  readonly language: string | null
  verbose?: VerboseTranscriptionBody & { duration: number }
}

const VERBS = { transcription: 'transcribe', translation: 'translate' } as const
/** The language tag for speech of unknown language: no model reports the language. */
const UNDETERMINED = 'und'

/** Languages of tags such as `zh-yue`, which Intl knows only by the last part. */
const EXTENDED = /^(?:ar|kok|lv|ms|sgn|sw|uz|zh(?:-min)?)-(?!min$)([a-z]{3})(?=-|$)/i

const ROOM_BEFORE_MARK = 64

/** `POST /v1/audio/transcriptions` and `/translations`, which the contract does not have: a chat about a recording. */
export function addTranscriptions(app: FastifyInstance, serving: Serving): void {
  const [transcribed, translated] = [speech('transcription', serving), speech('translation', serving)]
  app.register(async (scope) => {
    const types = ['multipart/form-data', 'application/x-www-form-urlencoded']
    scope.addContentTypeParser(types, (_request, _payload, done) => done(null))
    const answers = {
      '/v1/audio/transcriptions': (call: ApiCall) => serveChat(call, serving, transcribed),
      '/v1/audio/translations': (call: ApiCall) => serveChat(call, serving, translated),
    }
    addCalls(scope, { bucket: 'chat', answers })
  })
}

function speech(task: SpeechTask, { conversations }: Serving): ChatSurface<Asked, ReplyEvent> {
  return {
    endpoint: `${task}s`,
    async read(call, bodies) {
      const { fields: texts, file } = await bodies.readFields(call, 'file', TRANSCRIPTION_LISTS)
      const fields = parseBody(transcriptionFields, typed(texts))
      return { fields, ...soundOf(fields, file) }
    },
    find: ({ fields }, models) => namedModel(models, fields.model),
    async start({ call, read: { fields, sound, source }, model, caller, signal }) {
      if (!model.served.modalities.includes('audio'))
        throw invalidRequest(`Model '${model.id}' does not take audio`, 'model')
      const { messages, mark } = transcriptionChat(task, sound, hintsOf(fields), model.card)
      const { tags } = languagesOf(fields)
      const language = tags.length === 1 ? tags[0]! : null
      const form: TranscriptForm = { mark, model: fields.model, language, isText: fields.response_format === 'text' }
      if (fields.response_format === 'verbose_json') {
        form.verbose = { task: VERBS[task], language: language ?? UNDETERMINED, duration: 0 }
      }
      const heard = (seconds: number) => {
        if (form.verbose !== undefined) form.verbose.duration = seconds
      }
      const hearing = { ...caller, trace: { ...caller.trace, heard } }
      const events = await conversations.startChat(toChat(fields, messages, source), hearing, signal)
      if (form.isText && fields.stream !== true) call.setHeader('content-type', 'text/plain; charset=utf-8')
      return { events, writer: new TranscriptWriter(form), streamed: fields.stream === true }
    },
  }
}

/** Flags as clients write them. PHP writes true as 1, and false as an empty text, which counts as absent. */
const FLAGS: Readonly<Record<string, boolean>> = { true: true, 1: true, false: false, 0: false }

/** Converts a form's fields to their JSON types. */
function typed(fields: FormFields['fields']): Record<string, unknown> {
  const { temperature } = fields
  const flag = (text: unknown = 'false') => FLAGS[String(text).toLowerCase()] ?? text
  return {
    ...fields,
    ...(typeof temperature === 'string' && temperature.trim() !== '' && { temperature: Number(temperature) }),
    stream: flag(fields.stream),
    diarize: flag(fields.diarize),
  }
}

/** @throws ApiError 400 for a form without a recording or with several. */
function soundOf({ file_url: url, file_id: id }: TranscriptionFields, file: InlineMedia | null): Omit<Asked, 'fields'> {
  if ([file ?? undefined, url, id].filter((source) => source !== undefined).length > 1)
    throw invalidRequest("Expected only one of 'file', 'file_url' and 'file_id'", file === null ? 'file_url' : 'file')
  if (file !== null)
    return { sound: { type: 'input_audio', input_audio: { data: file, format: 'wav' } }, source: 'file' }
  if (url !== undefined) return { sound: { type: 'audio_url', audio_url: { url } }, source: 'file_url' }
  if (id !== undefined) return { sound: { type: 'audio_file_id', audio_file_id: { file_id: id } }, source: 'file_id' }
  throw invalidRequest("Invalid 'file': it is required", 'file')
}

const EITHER = new Intl.ListFormat('en', { type: 'disjunction' })

function hintsOf(fields: TranscriptionFields) {
  const { prompt = '', keywords = [], context_bias = [] } = fields
  const { tags, param } = languagesOf(fields)
  const names = tags.flatMap((tag) => nameOf(tag, param) ?? [])
  const context = [prompt, [...keywords, ...context_bias].join(', ')].filter((text) => text.trim() !== '').join('\n')
  return { language: names.length === 0 ? null : EITHER.format(names), context: context === '' ? null : context }
}

/** The tags of possible languages, and the field that has them. */
function languagesOf({ language, languages = [] }: TranscriptionFields) {
  return language === undefined ? { tags: languages, param: 'languages' } : { tags: [language], param: 'language' }
}

/** @throws ApiError 400 for an invalid language tag. */
function nameOf(language: string, param: string): string | null {
  const names = new Intl.DisplayNames(['en'], { type: 'language' })
  try {
    return names.of(new Intl.Locale(language.replace(EXTENDED, '$1')).baseName) ?? null
  } catch {
    throw invalidRequest(say`Invalid '${[param]}': expected a code such as 'en'`, param)
  }
}

function toChat(
  { temperature, stream = false }: TranscriptionFields,
  messages: readonly Message[],
  source: string,
): ChatRequest {
  const names: Names = (path) => (path[0] === 'messages' ? [source] : path)
  return {
    ...toReplyOptions({ temperature }),
    clampsTokens: true,
    messages,
    tools: [],
    toolUse: { choice: 'none', parallel: false },
    structure: null,
    streamed: stream,
    names,
  }
}

/** Writes the transcript, without what the model writes before it. */
class TranscriptWriter implements ReplyWriter<ReplyEvent> {
  readonly #form: TranscriptForm
  #text = ''
  /** Length of the text that has been sent. */
  #sent = 0
  /** Whether the transcript has begun. */
  #hasBegun: boolean
  #finish: ReplyFinish | null = null

  constructor(form: TranscriptForm) {
    this.#form = form
    this.#hasBegun = form.mark === null
  }

  write(event: ReplyEvent, stream: Frames): string | null {
    const reason = this.collect(event)
    const delta = this.#hasBegun ? this.#text.slice(this.#sent) : ''
    this.#sent += delta.length
    if (delta !== '')
      stream.send(JSON.stringify({ type: 'transcript.text.delta', delta } satisfies TranscriptionEventBody))
    return reason
  }

  end(stream: Frames): void {
    const event: TranscriptionEventBody = { type: 'transcript.text.done', text: this.#text, usage: this.#usage }
    stream.send(JSON.stringify(event))
  }

  collect(event: ReplyEvent): string | null {
    if (event.type === 'text') this.#take(event.text)
    if (event.type !== 'finish') return null
    this.#finish = event
    // A reply without the mark is a transcript as a whole.
    this.#hasBegun = true
    return event.reason
  }

  body(): TranscriptionBody | Buffer {
    const { isText, model, language, verbose } = this.#form
    if (isText) return Buffer.from(`${this.#text}\n`)
    // OpenAI's strict clients accept no other type with `verbose_json`.
    const usage = verbose ? { ...this.#usage, type: 'duration' as const, seconds: verbose.duration } : this.#usage
    return { text: this.#text, usage, model, language, ...verbose }
  }

  #take(text: string): void {
    this.#text += text
    const { mark } = this.#form
    if (this.#hasBegun || mark === null) return
    const at = this.#text.indexOf(mark)
    if (at !== -1) this.#text = this.#text.slice(at + mark.length)
    this.#hasBegun = at !== -1 || this.#text.length > ROOM_BEFORE_MARK
  }

  get #usage(): TranscriptionUsageBody {
    const { promptTokens, completionTokens, audioTokens } = this.#finish!.usage
    const audio = audioTokens ?? 0
    return {
      type: 'tokens',
      input_tokens: promptTokens,
      input_token_details: { text_tokens: promptTokens - audio, audio_tokens: audio },
      output_tokens: completionTokens,
      prompt_tokens: promptTokens,
      completion_tokens: completionTokens,
      total_tokens: promptTokens + completionTokens,
    }
  }
}
