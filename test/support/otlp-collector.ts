import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'

/** A span as it was received. */
export interface ReceivedSpan {
  readonly traceId: string
  readonly spanId: string
  /** Empty for the first span of a trace. */
  readonly parentId: string
  readonly traceState: string
  readonly name: string
  readonly kind: 'internal' | 'server' | 'client'
  /** In ns since 1970. */
  readonly start: bigint
  readonly end: bigint
  readonly attributes: Attributes
  readonly hasError: boolean
  readonly statusMessage: string
  /** Resource of the server that sent it. */
  readonly resource: Attributes
}

type Attributes = Readonly<Record<string, unknown>>

/** A collector of traces, as far as tests need one: OTLP over HTTP, as protobuf. */
export class OtlpCollector {
  readonly spans: ReceivedSpan[] = []
  /** Headers of the requests, in order. */
  readonly headers: NodeJS.Dict<string | string[]>[] = []
  readonly #server: Server
  /** Called whenever spans have arrived. */
  readonly #waiting = new Set<() => void>()

  static async start(): Promise<OtlpCollector> {
    const collector = new OtlpCollector()
    collector.#server.listen(0, '127.0.0.1')
    await once(collector.#server, 'listening')
    return collector
  }

  private constructor() {
    this.#server = createServer(async (request, response) => {
      const body = await buffer(request)
      const isExport = request.url === '/v1/traces' && request.headers['content-type'] === 'application/x-protobuf'
      response.writeHead(isExport ? 200 : 400).end()
      if (!isExport) return
      this.headers.push(request.headers)
      this.spans.push(...readSpans(body))
      for (const look of [...this.#waiting]) look()
    })
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** Resolves with the spans of a trace once these are enough. */
  async trace(id: string, isEnough: (spans: readonly ReceivedSpan[]) => boolean): Promise<readonly ReceivedSpan[]> {
    for (;;) {
      const spans = this.spans.filter(({ traceId }) => traceId === id)
      if (isEnough(spans)) return spans
      await new Promise<void>((resolve) => {
        const look = () => {
          this.#waiting.delete(look)
          resolve()
        }
        this.#waiting.add(look)
      })
    }
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }
}

/** Numbers of fields are those of opentelemetry/proto/collector/trace/v1 and what it includes. */
function readSpans(request: Buffer): ReceivedSpan[] {
  return fields(request, 1).flatMap((resourceSpans) => {
    const resource = fields(resourceSpans, 1).map((resource) => readAttributes(resource, 1))[0] ?? {}
    const spans = fields(resourceSpans, 2).flatMap((scopeSpans) => fields(scopeSpans, 2))
    return spans.map((span) => readSpan(span, resource))
  })
}

const KINDS: Readonly<Record<number, ReceivedSpan['kind']>> = { 1: 'internal', 2: 'server', 3: 'client' }
const STATUS_ERROR = 2

function readSpan(span: Buffer, resource: Attributes): ReceivedSpan {
  const hex = (field: number) => fields(span, field)[0]?.toString('hex') ?? ''
  const status = fields(span, 15)[0] ?? Buffer.alloc(0)
  return {
    traceId: hex(1),
    spanId: hex(2),
    parentId: hex(4),
    traceState: text(span, 3),
    name: text(span, 5),
    kind: KINDS[Number(number(span, 6))]!,
    start: number(span, 7),
    end: number(span, 8),
    attributes: readAttributes(span, 9),
    hasError: number(status, 3) === BigInt(STATUS_ERROR),
    statusMessage: text(status, 2),
    resource,
  }
}

function readAttributes(message: Buffer, field: number): Attributes {
  return Object.fromEntries(fields(message, field).map((pair) => [text(pair, 1), readValue(fields(pair, 2)[0]!)]))
}

function readValue(value: Buffer): unknown {
  const [array] = fields(value, 5)
  if (array !== undefined) return fields(array, 1).map(readValue)
  for (const { field, content } of parts(value)) {
    if (field === 1) return content.toString()
    if (field === 2) return content.readUInt8() === 1
    if (field === 3) return Number(varint(content, 0).value)
    if (field === 4) return content.readDoubleLE()
  }
  return null
}

function fields(message: Buffer, wanted: number): Buffer[] {
  return parts(message)
    .filter(({ field }) => field === wanted)
    .map(({ content }) => content)
}

function text(message: Buffer, field: number): string {
  return fields(message, field)[0]?.toString() ?? ''
}

function number(message: Buffer, field: number): bigint {
  const [content] = fields(message, field)
  if (content === undefined) return 0n
  return content.length === 8 ? content.readBigUInt64LE() : varint(content, 0).value
}

/** The fields of a protobuf message. */
function parts(message: Buffer): { readonly field: number; readonly content: Buffer }[] {
  const found: { field: number; content: Buffer }[] = []
  for (let at = 0; at < message.length; ) {
    const tag = varint(message, at)
    at = tag.end
    const type = Number(tag.value & 7n)
    let length: number
    if (type === 2) {
      const prefix = varint(message, at)
      at = prefix.end
      length = Number(prefix.value)
    } else length = type === 0 ? varint(message, at).end - at : type === 1 ? 8 : 4
    found.push({ field: Number(tag.value >> 3n), content: message.subarray(at, at + length) })
    at += length
  }
  return found
}

function varint(bytes: Buffer, at: number): { readonly value: bigint; readonly end: number } {
  let value = 0n
  for (let shift = 0n; ; shift += 7n) {
    const byte = bytes[at++]!
    value |= BigInt(byte & 127) << shift
    if (byte < 128) return { value, end: at }
  }
}
