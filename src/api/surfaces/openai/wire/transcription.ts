import { z } from 'zod'
import { requestSchemas, responses } from '../../../http/wire/components.ts'

const UNTIMED = "only 'json', 'text' and 'verbose_json' are supported: no model here says when words were spoken"

const untimed = z.undefined('not supported: no model here says when words were spoken').optional()

const language = z.string().regex(/^[a-z]{2,3}(-[a-z0-9]{1,8})*$/i, "expected a code such as 'en'")

const words = z.array(z.string()).max(1000).optional()

/** The fields that clients repeat for each item. */
const lists = {
  languages: z.array(language).max(100).optional().describe('In place of `language`: those that may be spoken.'),
  keywords: words.describe('Words that may occur. They follow the prompt.'),
  context_bias: words.describe('The same as `keywords`, in Mistral’s shape.'),
}
export const TRANSCRIPTION_LISTS = Object.keys(lists)

/** The fields of `POST /v1/audio/transcriptions` and `/v1/audio/translations` beside the file. Unknown ones are dropped. */
export const transcriptionFields = z.object({
  model: z.string(),
  language: language.optional().describe('The spoken language, if the model’s prompt supports one.'),
  prompt: z.string().optional().describe('Preceding speech, or names that occur, if the model’s prompt supports it.'),
  response_format: z
    .enum(['json', 'text', 'verbose_json'], UNTIMED)
    .optional()
    .describe('With `verbose_json`, the reply has no segments and no words.'),
  ...lists,
  temperature: z.number().min(0).max(2).optional(),
  stream: z.boolean().optional(),
  file_url: z.string().min(1).optional().describe('In place of the file, in Mistral’s shape: its URL or a data URL.'),
  file_id: z.string().min(1).optional().describe('In place of the file, in Mistral’s shape: the id of an upload.'),
  diarize: z.literal(false, 'only false is supported: no model here tells speakers apart').optional(),
  'include[]': z.undefined('not supported').optional(),
  'timestamp_granularities[]': untimed,
  timestamp_granularities: untimed,
})

const {
  'include[]': _,
  'timestamp_granularities[]': __,
  timestamp_granularities: ___,
  ...documented
} = transcriptionFields.shape
export const transcriptionRequest = z
  .object({
    file: z
      .string()
      .optional()
      .meta({ format: 'binary' })
      .describe('WAV, MP3, FLAC, M4A, Ogg, WebM or AAC, or the sound of an MP4.'),
    ...documented,
  })
  .register(requestSchemas, { id: 'TranscriptionRequest' })

const counts = {
  input_tokens: z.int().min(0),
  input_token_details: responses.object('TranscriptionInputTokens', {
    text_tokens: z.int().min(0),
    audio_tokens: z.int().min(0),
  }),
  output_tokens: z.int().min(0),
  prompt_tokens: z.int().min(0).describe('The same as `input_tokens`, in Mistral’s shape.'),
  completion_tokens: z.int().min(0).describe('The same as `output_tokens`, in Mistral’s shape.'),
  total_tokens: z.int().min(0),
}
const usage = responses.object('TranscriptionUsage', { type: z.literal('tokens'), ...counts })
const duration = z.number().min(0).describe('Seconds of the recording.')
const verboseUsage = responses.object('VerboseTranscriptionUsage', {
  type: z.literal('duration'),
  seconds: duration,
  ...counts,
})

const transcription = responses.object('Transcription', {
  text: z.string(),
  usage: responses
    .union('AnyTranscriptionUsage', 'type', [usage, verboseUsage])
    .describe('`duration` with `verbose_json`.'),
  model: z.string(),
  language: z
    .string()
    .nullable()
    .describe('That of the request; if it names none, null, or `und` with `verbose_json`.'),
  task: z.enum(['transcribe', 'translate']).optional().describe('Present with `verbose_json`, as is the next one.'),
  duration: duration.optional(),
})
const delta = responses.object('TranscriptionDelta', { type: z.literal('transcript.text.delta'), delta: z.string() })
const done = responses.object('TranscriptionDone', { type: z.literal('transcript.text.done'), text: z.string(), usage })
const event = responses.union('TranscriptionEvent', 'type', [delta, done])

export type TranscriptionFields = z.output<typeof transcriptionFields>
export type VerboseTranscriptionBody = Required<Pick<TranscriptionBody, 'task' | 'language' | 'duration'>>
export type TranscriptionUsageBody = z.output<typeof usage>
export type TranscriptionBody = z.output<typeof transcription>
export type TranscriptionEventBody = z.output<typeof event>
