/** What the threads of a body reader run: large bodies are parsed here, away from the event loop that serves everybody. */
import { kTransferable, kValue, Tinypool } from 'tinypool'
import { ApiError, type ApiErrorFields } from '../../../lib/errors.ts'
import { collectAllGarbage } from '../../../lib/memory.ts'
import { type BodyKind, type ParsedBody, parseJson } from './parse-json.ts'

export interface BodyTask {
  readonly bytes: Uint8Array<ArrayBuffer>
  readonly kind: BodyKind
}

/** A body from this size on leaves enough behind. */
const COLLECTED_BYTES = 2 ** 20

/** An error would lose its class on the way between threads. */
export type BodyOutcome<Kind extends BodyKind> =
  | { readonly body: ParsedBody<Kind> }
  | { readonly refusal: Omit<ApiErrorFields, 'cause'> & { readonly message: string } }

/** @returns a `BodyOutcome` to the thread that asked. */
export default function parse({ bytes, kind }: BodyTask): unknown {
  const outcome = outcomeOf(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), kind)
  // Its text, twice, would stay until the next one comes. This thread's heap holds nothing else.
  if (bytes.byteLength > COLLECTED_BYTES) collectAllGarbage()
  const media = 'body' in outcome ? outcome.body.inline.map((found) => found.bytes.buffer) : []
  // Moved rather than copied: media is most of a large body.
  return Tinypool.move({ [kTransferable]: media, [kValue]: outcome })
}

function outcomeOf<Kind extends BodyKind>(bytes: Buffer, kind: Kind): BodyOutcome<Kind> {
  try {
    return { body: parseJson(bytes, kind, true) }
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    const { message, status, type, param, code } = error
    return { refusal: { message, status, type, param, code } }
  }
}
