import { closeSync, readSync } from 'node:fs'
import { ConfigError } from '../../config/config.ts'
import { isRecord, parseRecord } from '../../lib/json/parse-json.ts'
import { linesOf, MOST_LINE_BYTES, openFile, textOr } from './json-lines.ts'

/** The result of a request: the body of a success, or an error. */
export type Result =
  | { readonly body: unknown }
  | { readonly error: { readonly status: number | null; readonly code: string | null; readonly message: string } }

/** Position of a line: its file, its number from 1, and its bytes. */
interface LinePlace {
  readonly path: string
  readonly file: number
  readonly number: number
  readonly start: number
  readonly length: number
}

/** Outputs of batches (of `/v1/batches` or `lookout batch`), combined. */
export type ResultFiles = Awaited<ReturnType<typeof openResults>>

/**
 * Reads all lines. Only their ids and offsets are in memory; disposing closes the files.
 * @throws ConfigError naming the file and the faulty line.
 */
export async function openResults(paths: readonly string[]) {
  using opening = new DisposableStack()
  const places = new Map<string, LinePlace>()
  for (const path of paths) {
    const file = openFile(path)
    opening.defer(() => closeSync(file))
    for await (const { number, start, length, bytes } of linesOf(path)) {
      const at = `${path}:${number}`
      if (bytes === null) throw new ConfigError(`${at} is longer than ${MOST_LINE_BYTES / 2 ** 20} MiB`)
      const { id } = readResult(bytes, at)
      const earlier = places.get(id)
      if (earlier !== undefined) {
        const other = `${earlier.path}:${earlier.number}`
        throw new ConfigError(`${at} has the same id as ${other}: ${JSON.stringify(id)}`)
      }
      places.set(id, { path, file, number, start, length })
    }
  }
  /** Names of the files, for messages. */
  const names = paths.join(' and ')
  if (places.size === 0) throw new ConfigError(`${names} has no lines`)
  const files = opening.move()
  return {
    names,
    /** In the order of the files. */
    get ids(): Iterable<string> {
      return places.keys()
    },
    has: (id: string) => places.has(id),
    /** The result with an existing id. @throws ConfigError if the file has changed since. */
    find(id: string): Result {
      const { path, file, number, start, length } = places.get(id)!
      const bytes = Buffer.alloc(length)
      const read = readSync(file, bytes, 0, length, start)
      return readResult(bytes.subarray(0, read), `${path}:${number}`).result
    },
    [Symbol.dispose]: () => files.dispose(),
  }
}

/** What the lines of a file are; null for a file with neither. @throws ConfigError if it cannot be read. */
export async function kindOfLines(path: string): Promise<'requests' | 'results' | null> {
  for await (const { bytes } of linesOf(path)) {
    const line = bytes === null ? null : parseRecord(bytes.toString())
    if (line === null) return null
    return 'custom_id' in line && 'body' in line ? 'requests' : 'results'
  }
  return null
}

/** @param at its position for errors, as `yesterday.jsonl:3`. */
function readResult(bytes: Buffer, at: string): { readonly id: string; readonly result: Result } {
  const line = parseRecord(bytes.toString()) ?? fail(at, faultOf(bytes.toString()))
  const { custom_id: id, file, response, error } = line
  if (typeof file === 'string' && file !== '' && ('answer' in line || 'detections' in line)) {
    const { file: _, ...body } = line
    return { id: file, result: { body } }
  }
  if (typeof id !== 'string' || id === '') return fail(at, EXPECTED)
  if (isRecord(response) && typeof response.status_code === 'number') {
    const { status_code: status, body } = response
    if (status < 300) return { id, result: { body } }
    const said = isRecord(body) && isRecord(body.error) ? body.error : {}
    return { id, result: { error: { status, code: textOr(said.code, null), message: textOr(said.message, '') } } }
  }
  if (response !== null && response !== undefined) return fail(at, "expected 'response' with 'status_code' and 'body'")
  if (!isRecord(error)) return fail(at, 'body' in line ? `this is a request. ${EXPECTED}` : EXPECTED)
  return { id, result: { error: { status: null, code: textOr(error.code, null), message: textOr(error.message, '') } } }
}

const EXPECTED =
  "expected a line of a batch's output, with 'custom_id' and 'response', or of lookout batch, with 'file'"

function faultOf(text: string): string {
  if (/[:[,]\s*-?(NaN|Infinity)\b/.test(text)) return 'the line has NaN or Infinity, which JSON does not have'
  return text.startsWith('{') && !text.endsWith('}')
    ? 'the line is cut off: is the file complete?'
    : `the line is not a JSON object. ${EXPECTED}`
}

function fail(at: string, problem: string): never {
  throw new ConfigError(`${at}: ${problem}`)
}
