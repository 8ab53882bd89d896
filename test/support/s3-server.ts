import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'

interface StoredObject {
  readonly bytes: Buffer
  readonly modified: Date
}

/**
 * The part of S3 that a blob store needs, in memory: put, get (with ranges), delete and list. Requests must be signed,
 * but any signature is accepted.
 */
export class S3Server {
  readonly objects = new Map<string, StoredObject>()
  /** The region for which the last request was signed. */
  region: string | undefined
  /** Whether it rejects every request, as one that has other keys. */
  refuses = false
  /** Whether it leaves every request without an answer. */
  isSilent = false
  /** What it does in the middle of each object. */
  breaksOff: 'no' | 'closes' | 'falls silent' = 'no'
  readonly #server: Server

  private constructor() {
    this.#server = createServer((request, response) => {
      // Fails when the client disconnects in the middle of an object.
      this.#respond(request, response).catch((error) => response.destroy(error))
    })
  }

  static async start(): Promise<S3Server> {
    const server = new S3Server()
    await new Promise<void>((resolve) => server.#server.listen(0, '127.0.0.1', resolve))
    return server
  }

  get port(): number {
    return (this.#server.address() as { port: number }).port
  }

  async #respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (this.isSilent) return
    const url = new URL(request.url!, 'http://s3')
    const [, bucket, ...rest] = url.pathname.split('/').map(decodeURIComponent)
    const key = rest.join('/')
    const fail = (status: number, code: string) =>
      response.writeHead(status, { 'content-type': 'application/xml' }).end(`<Error><Code>${code}</Code></Error>`)
    if (this.refuses || !request.headers.authorization?.startsWith('AWS4-HMAC-SHA256 '))
      return void fail(403, 'AccessDenied')
    this.region = request.headers.authorization.split('/')[2]
    if (bucket === undefined || bucket === '') return void fail(400, 'InvalidBucketName')
    if (key === '') return void response.end(this.#list(url.searchParams))
    switch (request.method) {
      case 'PUT': {
        const bytes = await buffer(request)
        if (bytes.length !== Number(request.headers['content-length'])) return void fail(400, 'IncompleteBody')
        this.objects.set(key, { bytes, modified: new Date() })
        return void response.end()
      }
      case 'DELETE':
        this.objects.delete(key)
        return void response.writeHead(204).end()
      case 'GET': {
        const object = this.objects.get(key)
        if (!object) return void fail(404, 'NoSuchKey')
        const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '') ?? []
        const part = first === undefined ? object.bytes : object.bytes.subarray(Number(first), Number(last) + 1)
        response.writeHead(first === undefined ? 200 : 206, { 'content-length': part.length })
        if (this.breaksOff === 'no') return void response.end(part)
        return void response.write(part.subarray(0, part.length / 2), () => {
          if (this.breaksOff === 'closes') response.destroy()
        })
      }
      default:
        return void fail(405, 'MethodNotAllowed')
    }
  }

  #list(query: URLSearchParams): string {
    const after = query.get('continuation-token') ?? ''
    const most = Number(query.get('max-keys') ?? 1000)
    const keys = [...this.objects.keys()]
      .filter((key) => key.startsWith(query.get('prefix') ?? '') && key > after)
      .sort()
    const page = keys.slice(0, most)
    const contents = page.map((key) => {
      const { bytes, modified } = this.objects.get(key)!
      return `<Contents><Key>${key}</Key><LastModified>${modified.toISOString()}</LastModified><Size>${bytes.length}</Size></Contents>`
    })
    const more = keys.length > most
    const next = more ? `<NextContinuationToken>${page.at(-1)}</NextContinuationToken>` : ''
    return `<ListBucketResult><IsTruncated>${more}</IsTruncated>${next}${contents.join('')}</ListBucketResult>`
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }
}
