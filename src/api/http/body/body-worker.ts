/** What the threads of a body reader run: large bodies are parsed here, away from the event loop that serves everybody. */
import { kTransferable, kValue, Tinypool } from 'tinypool'
import type { z } from 'zod'
import { ApiError, type ApiErrorFields } from '../../../lib/errors.ts'
import { collectAllGarbage } from '../../../lib/memory.ts'
import type { BodyFormat } from './body-format.ts'
import { type ParsedBody, parseJson } from './parse-json.ts'

export interface BodyTask extends Pick<BodyFormat, 'module' | 'name'> {
  readonly bytes: Uint8Array<ArrayBuffer>
}

/** A body from this size on leaves enough behind. */
const COLLECTED_BYTES = 2 ** 20

/** An error would lose its class on the way between threads. */
export type BodyOutcome<Fields> =
  | { readonly body: ParsedBody<Fields> }
  | { readonly refusal: Omit<ApiErrorFields, 'cause'> & { readonly message: string } }

/** @returns a `BodyOutcome` to the thread that asked. */
export default async function parse({ bytes, module, name }: BodyTask): Promise<unknown> {
  const { [name]: schema } = (await import(module)) as Record<string, z.ZodType>
  const outcome = outcomeOf(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), schema!)
  // Its text, twice, would stay until the next one comes. This thread's heap holds nothing else.
  if (bytes.byteLength > COLLECTED_BYTES) collectAllGarbage()
  const media = 'body' in outcome ? outcome.body.inline.map((found) => found.bytes.buffer) : []
  // Moved rather than copied: media is most of a large body.
  return Tinypool.move({ [kTransferable]: media, [kValue]: outcome })
}

function outcomeOf<Fields>(bytes: Buffer, schema: z.ZodType<Fields>): BodyOutcome<Fields> {
  try {
    return { body: parseJson(bytes, schema, true) }
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    const { message, status, type, param, code } = error
    return { refusal: { message, status, type, param, code } }
  }
}
