import { randomBytes } from 'node:crypto'
import type { Files } from '../files/files.ts'
import type { ErrorCode } from '../lib/errors/error-codes.ts'
import { invalidRequest } from '../lib/errors/errors.ts'
import type { BatchEnding } from '../storage/schema.ts'
import type { BatchOutput } from './batch-desk.ts'
import type { KeptLine } from './line-desk.ts'

/** The response to a line. */
export interface LineResponse {
  readonly status: number
  readonly requestId: string
  /** JSON. */
  readonly body: string
}

/** The response to a request that asks for a stream. */
export const STREAMS: LineResponse = {
  status: 400,
  requestId: '',
  body: JSON.stringify(invalidRequest("Invalid 'stream': lines of a batch cannot be streamed", 'stream').toBody()),
}

/** A line of an output, as OpenAI writes it. */
export function resultLine(customId: string, { status, requestId, body }: LineResponse): string {
  const response = `{"status_code":${status},"request_id":${JSON.stringify(requestId)},"body":${body.trim()}}`
  return outputLine(customId, response, 'null')
}

/** The line of the output for a line that was not run. */
export function errorLine(customId: string, code: ErrorCode, message: string): string {
  return outputLine(customId, 'null', JSON.stringify({ code, message }))
}

function outputLine(customId: string, response: string, error: string): string {
  const id = `batch_req_${randomBytes(12).toString('hex')}`
  return `{"id":"${id}","custom_id":${JSON.stringify(customId)},"response":${response},"error":${error}}`
}

const NOT_RUN: Readonly<Record<BatchEnding, readonly [code: ErrorCode, message: string]>> = {
  completed: ['server_error', 'The line was not run'],
  failed: ['batch_failed', 'The line was not run, because the batch failed'],
  expired: ['batch_expired', 'The line could not be run before the completion window ended'],
  cancelled: ['batch_cancelled', 'The line was not run, because the batch was cancelled'],
}

/**
 * Writes the results of a batch: those that succeeded into one file, all others into another. A file without lines is
 * not created.
 * @returns drafts, which must be kept or discarded.
 */
export async function writeOutputs(
  pieces: AsyncIterable<readonly KeptLine[]> | Iterable<readonly KeptLine[]>,
  ending: BatchEnding,
  files: Pick<Files, 'draft'>,
): Promise<readonly BatchOutput[]> {
  const outputs: Record<BatchOutput['kind'], (BatchOutput & { bytes: number }) | null> = { output: null, error: null }
  try {
    for await (const lines of pieces) {
      for (const { customId, result, failed } of lines) {
        const kind = result === null || failed ? 'error' : 'output'
        const line = Buffer.from(`${result ?? errorLine(customId, ...NOT_RUN[ending])}\n`)
        outputs[kind] ??= { kind, draft: await files.draft(), bytes: 0 }
        outputs[kind].bytes += line.length
        await outputs[kind].draft.write(line)
      }
    }
  } catch (error) {
    for (const output of Object.values(outputs)) await output?.draft.discard().catch(() => {})
    throw error
  }
  return Object.values(outputs).filter((output) => output !== null)
}
