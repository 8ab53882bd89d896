import { closeSync, createReadStream, readSync } from 'node:fs'
import { indexInput } from '../../batches/input-index.ts'
import { resultLine, STREAMS } from '../../batches/output-writer.ts'
import type { LookoutClient } from '../../client/client.ts'
import { ServerError } from '../../client/server-error.ts'
import { ConfigError } from '../../config/config.ts'
import { type JsonObject, parseRecord } from '../../lib/json/parse-json.ts'
import { rawMembers } from '../../lib/json/raw-json.ts'
import type { Input } from './journal.ts'
import { linesOf, openFile, textOr } from './json-lines.ts'

/** A request of the input of a batch. */
export interface FileRequest extends Input {
  readonly start: number
  readonly streams: boolean
}

/**
 * Opens the input of a batch. Only the ids and offsets of its requests are in memory; disposing closes the file.
 * @param changed Unix milliseconds of its last change.
 * @throws ConfigError naming the faulty line.
 */
export async function openRequests(path: string, changed: number) {
  const endpoint = await endpointOf(path)
  const bytes = createReadStream(path, { highWaterMark: 2 ** 20 })
  const index = await indexInput(bytes, endpoint, Number.POSITIVE_INFINITY)
  if ('problems' in index) {
    const [{ line, message }, ...more] = index.problems as [(typeof index.problems)[0]]
    const rest = more.length === 0 ? '' : ` (and ${more.length} more ${more.length === 1 ? 'problem' : 'problems'})`
    throw new ConfigError(`${path}${line === null ? '' : `:${line}`}: ${message}${rest}`)
  }
  const requests = index.lines.map(({ customId, start, length, streams }): FileRequest => {
    return { file: customId, bytes: length, changed, start, streams }
  })
  const file = openFile(path)
  const bodyOf = ({ start, bytes }: FileRequest): string => {
    const body = Buffer.alloc(bytes)
    readSync(file, body, 0, bytes, start)
    return body.toString()
  }
  const first = JSON.parse(bodyOf(requests[0]!)) as JsonObject
  return {
    endpoint,
    /** Requests about the same media follow one another. */
    requests,
    /** The model of the first request. */
    model: textOr(first.model, null),
    /**
     * @param model replaces the model that the request names; null to keep that one.
     * @returns a line of an output.
     * @throws ServerError if the server fails, or will fail at other requests too.
     */
    async answer(client: LookoutClient, request: FileRequest, model: string | null): Promise<string> {
      if (request.streams) return resultLine(request.file, STREAMS)
      const body = bodyOf(request)
      const answer = await client.answer(endpoint, model === null ? body : withModel(body, model))
      const { status } = answer
      if (status >= 500 || NOT_ABOUT_THE_REQUEST.has(status)) {
        const { error } = JSON.parse(answer.body) as { error: { message: string } }
        throw new ServerError(error.message, { status })
      }
      return resultLine(request.file, answer)
    },
    [Symbol.dispose]: () => closeSync(file),
  }
}

/** Statuses that other requests would get as well. */
const NOT_ABOUT_THE_REQUEST: ReadonlySet<number> = new Set([401, 403, 429])

async function endpointOf(path: string): Promise<string> {
  for await (const { number, bytes } of linesOf(path)) {
    const { url } = parseRecord(bytes!.toString())!
    // It is appended to the address of the server.
    if (typeof url === 'string' && /^\/v1(\/[\w-]+)+$/.test(url)) return url
    throw new ConfigError(`${path}:${number}: Invalid 'url': expected an endpoint such as /v1/chat/completions`)
  }
  throw new ConfigError(`${path} has no lines`)
}

/** The body unchanged, except for its model. */
function withModel(body: string, model: string): string {
  const members = rawMembers(body)!
  const named = members.findLast(({ key }) => key === 'model')
  const text = JSON.stringify(model)
  if (named !== undefined) return body.slice(0, named.start) + text + body.slice(named.start + named.value.length)
  return `{"model":${text}${members.length === 0 ? '' : ','}${body.trimStart().slice(1)}`
}
