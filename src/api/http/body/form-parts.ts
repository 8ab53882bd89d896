import type { Readable, Writable } from 'node:stream'
import { finished } from 'node:stream/promises'
import { setImmediate } from 'node:timers/promises'
import { Busboy } from '@fastify/busboy'
import { invalidRequest } from '../../../lib/errors/errors.ts'
import { getOrMake } from '../../../lib/get-or-make.ts'

const MOST_PARTS = 257
const TOO_MANY = `A form may have at most ${MOST_PARTS} parts`
const PIECE_BYTES = 128 * 1024
const LIMITS = { parts: MOST_PARTS, fieldNameSize: 200, headerPairs: 20, headerSize: 8 * 1024 }

/**
 * Splits a whole multipart form into its parts, by name. Only items of lists may share a name: the names in `lists`,
 * and names that end with `[]`.
 * @throws ApiError 400 for an invalid form.
 */
export async function splitForm(
  bytes: Buffer,
  contentType: string,
  lists: readonly string[] = [],
): Promise<Map<string, Buffer<ArrayBuffer>[]>> {
  const parts = new Map<string, Buffer<ArrayBuffer>[]>()
  const form = openForm(contentType)
  const failure = Promise.withResolvers<never>()
  const refuse = (message: string, cause?: unknown) => {
    failure.reject(invalidRequest(message, null, { cause }))
    form.destroy()
  }
  form.on('error', (cause: unknown) => refuse(INVALID, cause))
  form.on('partsLimit', () => refuse(TOO_MANY))
  form.on('file', (name: string, stream: Readable) => {
    const chunks: Buffer[] = []
    stream.on('data', (chunk: Buffer) => chunks.push(chunk))
    stream.on('error', (cause) => refuse(INVALID, cause))
    stream.on('end', () => {
      if (parts.has(name) && !name.endsWith('[]') && !lists.includes(name))
        refuse(`The form has two parts with the name '${name.slice(0, 100)}'`)
      getOrMake(parts, name, () => []).push(joined(chunks))
    })
  })
  await Promise.race([feed(form, bytes), failure.promise])
  return parts
}

/**
 * The fields of a URL-encoded form. Their number is limited as for multipart forms: a million fields would delay all
 * other requests.
 * @throws ApiError 400 for too many fields.
 */
export function urlEncodedFields(bytes: Buffer): URLSearchParams {
  const text = bytes.toString()
  if (text.split('&', MOST_PARTS + 1).length > MOST_PARTS) throw invalidRequest(TOO_MANY, null)
  return new URLSearchParams(text)
}

/** Writes in chunks, so that other requests get their turn in between. Stops when the form is destroyed. */
async function feed(form: Writable, bytes: Buffer): Promise<void> {
  const ended = finished(form)
  // A failure is handled where the result is awaited.
  ended.catch(() => {})
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
    if (form.destroyed) return
    form.write(bytes.subarray(at, at + PIECE_BYTES))
    await setImmediate()
  }
  form.end()
  await ended
}

const INVALID = 'The form is not valid multipart/form-data'

function openForm(contentType: string) {
  try {
    return new Busboy({ headers: { 'content-type': contentType }, isPartAFile: () => true, limits: LIMITS })
  } catch (cause) {
    throw invalidRequest('The multipart boundary is missing or invalid', null, { cause })
  }
}

/** Makes a separate copy, because a transfer to a thread takes a buffer's whole underlying memory. */
function joined(chunks: readonly Buffer[]): Buffer<ArrayBuffer> {
  const whole = Buffer.allocUnsafeSlow(chunks.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const chunk of chunks) at += chunk.copy(whole, at)
  return whole
}
