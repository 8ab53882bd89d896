import OpenAI, { toFile } from 'openai'
import { expect } from 'vitest'

export interface BatchLine {
  readonly custom_id: string
  readonly method?: string
  readonly url?: string
  readonly body: unknown
}

/** A line of an output. */
export interface OutputLine {
  readonly id: string
  readonly custom_id: string
  readonly response: {
    readonly status_code: number
    readonly request_id: string
    readonly body: Readonly<Record<string, unknown>> & { readonly error?: Readonly<Record<string, unknown>> }
  } | null
  readonly error: { readonly code: string; readonly message: string } | null
}

export const CHAT = '/v1/chat/completions'
const ENDED = ['completed', 'failed', 'expired', 'cancelled']

/** OpenAI's client for a server, with what tests of batches do most. */
export class BatchClient {
  readonly openai: OpenAI

  constructor(url: string, apiKey: string) {
    this.openai = new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 })
  }

  async upload(lines: readonly BatchLine[] | string, url = CHAT): Promise<string> {
    const text =
      typeof lines === 'string'
        ? lines
        : lines.map((line) => `${JSON.stringify({ method: 'POST', url, ...line })}\n`).join('')
    const file = await this.openai.files.create({ file: await toFile(Buffer.from(text), 'in.jsonl'), purpose: 'batch' })
    return file.id
  }

  async start(
    lines: readonly BatchLine[] | string,
    { url = CHAT, ...fields }: { url?: string; completion_window?: string } = {},
  ): Promise<OpenAI.Batch> {
    const params = { input_file_id: await this.upload(lines, url), endpoint: url, completion_window: '24h', ...fields }
    return this.openai.batches.create(params as OpenAI.BatchCreateParams)
  }

  /** The batch once it has ended. */
  async ended(id: string, timeout = 60_000): Promise<OpenAI.Batch> {
    let batch: OpenAI.Batch | null = null
    await expect
      .poll(
        async () => {
          // A server that was killed is away.
          batch = await this.openai.batches.retrieve(id).catch(() => null)
          return batch !== null && ENDED.includes(batch.status)
        },
        { timeout, interval: 30 },
      )
      .toBe(true)
    return batch!
  }

  async linesOf(file: string | null | undefined): Promise<OutputLine[]> {
    if (file === null || file === undefined) return []
    const text = await (await this.openai.files.content(file)).text()
    expect(text.endsWith('\n')).toBe(true)
    return text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as OutputLine)
  }

  /** All lines of both files. */
  async outputOf({ output_file_id, error_file_id }: OpenAI.Batch) {
    return { output: await this.linesOf(output_file_id), errors: await this.linesOf(error_file_id) }
  }
}

export function chatBody(text: string, fields: object = {}): object {
  return { model: 'service-mk1.5', messages: [{ role: 'user', content: text }], ...fields }
}

export function chatLines(count: number, name = 'line', fields: object = {}): BatchLine[] {
  return Array.from({ length: count }, (_, index) => ({
    custom_id: `${name}-${index}`,
    body: chatBody(`Say ${index}`, fields),
  }))
}
