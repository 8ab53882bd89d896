import { z } from 'zod'
import { bodyFormat } from '../../http/body/body-format.ts'
import { page, requestSchemas, requests, responseSchemas, responses } from '../../http/wire/components.ts'
import { metadataPairs } from '../../http/wire/metadata.ts'

/** The endpoints whose requests may be lines of a batch. */
export const BATCH_ENDPOINTS = [
  '/v1/chat/completions',
  '/v1/chat/completions/multilook',
  '/v1/completions',
  '/v1/embeddings',
  '/v1/rerank',
  '/v1/ocr',
  '/v1/responses',
  '/v1/messages',
  '/v1/detect',
  '/v1/decisions',
] as const

const UNIT_SECONDS = { s: 1, m: 60, h: 3_600, d: 86_400 } as const
const WINDOW = /^([1-9]\d{0,6})([smhd])$/
const LONGEST_WINDOW_SECONDS = 30 * 86_400

/** Returns the seconds of a window such as `24h`; null for other texts. */
export function windowSeconds(window: string): number | null {
  const match = WINDOW.exec(window)
  const seconds = match && Number(match[1]) * UNIT_SECONDS[match[2] as keyof typeof UNIT_SECONDS]
  return seconds !== null && seconds <= LONGEST_WINDOW_SECONDS ? seconds : null
}

const outputExpiry = requests.object('BatchOutputExpiry', {
  anchor: z.literal('created_at'),
  seconds: z.int().min(3_600).max(2_592_000),
})

const metadata = metadataPairs().register(requestSchemas, { id: 'BatchMetadata' })

const batchRequest = requests.object('BatchRequest', {
  input_file_id: z.string().describe('A file of purpose `batch`.'),
  endpoint: z.enum(BATCH_ENDPOINTS),
  completion_window: z
    .string()
    .refine((window) => windowSeconds(window) !== null, "expected a time such as '24h', of at most 30 days")
    .describe('`24h`, or another duration in s, m, h or d. Requests that have not run by then are not run.'),
  metadata: metadata.nullish(),
  output_expires_after: outputExpiry.nullish(),
})

export const batchBody = bodyFormat(import.meta.url, 'batchRequest', batchRequest)
export { batchRequest }

const problem = responses.object('BatchError', {
  code: z.string(),
  message: z.string(),
  param: z.string().nullable(),
  line: z.int().nullable().describe('Line number in the input file, from 1.'),
})

const problems = responses.object('BatchErrorList', { object: z.literal('list'), data: z.array(problem) })

const counts = responses.object('BatchRequestCounts', { total: z.int(), completed: z.int(), failed: z.int() })

const givenMetadata = z.record(z.string(), z.string()).register(responseSchemas, { id: 'GivenMetadata' })

const moment = z.int().nullable()

export const batch = responses.object('Batch', {
  id: z.string(),
  object: z.literal('batch'),
  endpoint: z.enum(BATCH_ENDPOINTS),
  errors: problems.nullable(),
  input_file_id: z.string(),
  completion_window: z.string(),
  status: z.enum([
    'validating',
    'failed',
    'in_progress',
    'finalizing',
    'completed',
    'expired',
    'cancelling',
    'cancelled',
  ]),
  output_file_id: z.string().nullable().describe('The responses with status 200; null if there are none.'),
  error_file_id: z
    .string()
    .nullable()
    .describe('All other responses, and the lines that were not run; null if there are none.'),
  created_at: z.int(),
  in_progress_at: moment,
  expires_at: z.int(),
  finalizing_at: moment,
  completed_at: moment,
  failed_at: moment,
  expired_at: moment,
  cancelling_at: moment,
  cancelled_at: moment,
  request_counts: counts,
  metadata: givenMetadata.nullable(),
})

export const batchList = responses.object('BatchList', page(batch, z.string().nullable()))

export type BatchBody = z.output<typeof batch>
export type BatchListBody = z.output<typeof batchList>
