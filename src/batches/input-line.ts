import { createHash } from 'node:crypto'
import type { ErrorCode } from '../lib/errors/error-codes.ts'
import { MOST_VALUES, shapeFault } from '../lib/json/json-shape.ts'
import { isRecord, type JsonObject } from '../lib/json/parse-json.ts'
import { rawMembers } from '../lib/json/raw-json.ts'
import type { BatchProblem } from '../storage/schema.ts'

/** A parsed line of an input, or what is wrong with it. */
export type InputLine =
  | {
      readonly customId: string
      /** Equal for lines about the same media; null for a line without media. */
      readonly media: string | null
      /** Where the request is in the line, in bytes. The rest is no longer needed. */
      readonly body: { readonly start: number; readonly length: number }
      /** Whether the request asks for a stream. */
      readonly streams: boolean
    }
  | { readonly problem: Omit<BatchProblem, 'line'> }

const MOST_ID_CHARACTERS = 512

/** Reads what the batch must know of a line before it runs. Whether its body is a valid request is not checked. */
export function readInputLine(bytes: Buffer, endpoint: string): InputLine {
  // Too many values for the memory of the thread, and for every endpoint. The endpoint checks their depth.
  if (shapeFault(bytes, Number.POSITIVE_INFINITY) !== null) {
    return problem('line_too_complex', `The line contains more than ${MOST_VALUES} values`, null)
  }
  let text: string
  let line: unknown
  try {
    text = utf8.decode(bytes)
    line = JSON.parse(text)
  } catch {
    return problem('invalid_json_line', 'The line is not valid JSON', null)
  }
  if (!isRecord(line)) return problem('invalid_json_line', 'The line is not a JSON object', null)
  const { custom_id: customId, method, url, body } = line
  if (typeof customId !== 'string' || customId === '') {
    return problem('invalid_custom_id', "Invalid 'custom_id': expected a string that is not empty", 'custom_id')
  }
  if (customId.length > MOST_ID_CHARACTERS) {
    return problem(
      'invalid_custom_id',
      `Invalid 'custom_id': expected at most ${MOST_ID_CHARACTERS} characters`,
      'custom_id',
    )
  }
  // PostgreSQL cannot store these.
  if (!customId.isWellFormed() || customId.includes('\0')) {
    return problem(
      'invalid_custom_id',
      "Invalid 'custom_id': expected text without NUL and half characters",
      'custom_id',
    )
  }
  if (method !== 'POST') return problem('invalid_method', "Invalid 'method': expected 'POST'", 'method')
  if (url !== endpoint) {
    return problem('mismatched_url', `Invalid 'url': expected '${endpoint}', the endpoint of the batch`, 'url')
  }
  if (!isRecord(body)) return problem('invalid_body', "Invalid 'body': expected an object", 'body')
  const media = firstMedia(body)
  return {
    customId,
    media: media === null ? null : digest(media),
    body: placeOf(text, 'body'),
    streams: body.stream === true,
  }
}

/** Where the value of a member is, in bytes. */
function placeOf(text: string, wanted: string): { start: number; length: number } {
  const { start, value } = rawMembers(text)!.findLast(({ key }) => key === wanted)!
  return { start: Buffer.byteLength(text.slice(0, start)), length: Buffer.byteLength(value) }
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function problem(code: ErrorCode, message: string, param: string | null): InputLine {
  return { problem: { code, message, param } }
}

/** Keys whose texts name media, in any of the endpoints. */
const MEDIA_KEYS = new Set(['url', 'image_url', 'video_url', 'file_id', 'image_file_id', 'video_file_id', 'data'])

/** The text that names the first media of a body. Walks without recursion: a body may be nested deep. */
function firstMedia(body: JsonObject): string | null {
  const stack: [key: string, value: unknown][] = [['', body]]
  for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
    const [key, value] = next
    if (typeof value === 'string') {
      if (MEDIA_KEYS.has(key) || value.startsWith('data:')) return value
    } else if (Array.isArray(value)) {
      for (let index = value.length - 1; index >= 0; index--) stack.push([key, value[index]])
    } else if (isRecord(value)) for (const entry of Object.entries(value).reverse()) stack.push(entry)
  }
  return null
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('base64')
}
