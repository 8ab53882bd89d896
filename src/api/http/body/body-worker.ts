/** The worker of `BodyReader`: parses large bodies away from the event loop. */
import { kTransferable, kValue, Tinypool } from 'tinypool'
import type { z } from 'zod'
import type { ErrorText } from '../../../lib/errors/error-text.ts'
import { ApiError, type ApiErrorFields } from '../../../lib/errors/errors.ts'
import { collectAllGarbage } from '../../../lib/guarded/memory.ts'
import type { BodyFormat } from './body-format.ts'
import { type ParsedBody, parseJson } from './parse-json.ts'

export interface BodyTask extends Pick<BodyFormat, 'module' | 'name'> {
  readonly bytes: Uint8Array<ArrayBuffer>
}

/** Bodies larger than this leave enough garbage to be worth a collection. */
const COLLECTED_BYTES = 2 ** 20

/** The result of parsing. Errors are sent as their fields: between threads an `ApiError` would lose its class. */
export type BodyOutcome<Fields> =
  | { readonly body: ParsedBody<Fields> }
  | { readonly error: Omit<ApiErrorFields, 'cause'> & { readonly text: ErrorText } }

/** @returns a `BodyOutcome`, wrapped so that its media are transferred to the calling thread. */
export default async function parse({ bytes, module, name }: BodyTask): Promise<unknown> {
  const { [name]: schema } = (await import(module)) as Record<string, z.ZodType>
  const outcome = outcomeOf(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), schema!)
  // Otherwise two copies of the body would stay in memory until the next body arrives. This heap holds nothing else.
  if (bytes.byteLength > COLLECTED_BYTES) collectAllGarbage()
  const media = 'body' in outcome ? outcome.body.inline.map((found) => found.bytes.buffer) : []
  // Transferred, not copied: media are most of a large body.
  return Tinypool.move({ [kTransferable]: media, [kValue]: outcome })
}

function outcomeOf<Fields>(bytes: Buffer, schema: z.ZodType<Fields>): BodyOutcome<Fields> {
  try {
    return { body: parseJson(bytes, schema, true) }
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    const { text, status, type, path, code } = error
    return { error: { text, status, type, param: path, code } }
  }
}
