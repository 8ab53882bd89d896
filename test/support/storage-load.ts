import { createHash, randomBytes, randomInt } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { SilentServer } from './silent-server.ts'

const WORKERS = 8

/** Several clients that upload files, chat, list files and check keys at the same time, until stopped. */
export class StorageLoad {
  /** Digests of the acknowledged files, by id. */
  readonly kept = new Map<string, string>()
  /** Number of responses by kind of request and status, e.g. `upload 503`. */
  readonly statuses: Record<string, number> = {}
  readonly #server: SilentServer
  readonly #keys: readonly string[]
  readonly #png: Buffer
  #running = false
  #workers: Promise<unknown> = Promise.resolve()

  private constructor(server: SilentServer, keys: readonly string[], png: Buffer) {
    this.#server = server
    this.#keys = keys
    this.#png = png
  }

  /** @param keys each request uses one of them at random. */
  static async prepare(server: SilentServer, keys: readonly string[]): Promise<StorageLoad> {
    const png = await readFile(new URL('../../docs/pictures/shapes.png', import.meta.url))
    return new StorageLoad(server, keys, png)
  }

  start(): void {
    this.#running = true
    this.#workers = Promise.all(Array.from({ length: WORKERS }, () => this.#work()))
  }

  /** Resolves when all active requests have ended. @throws Error when the server broke a connection. */
  async stop(): Promise<void> {
    this.#running = false
    await this.#workers
  }

  call(path: string, init: RequestInit = {}): Promise<Response> {
    const key = this.#keys[randomInt(this.#keys.length)]!
    return fetch(this.#server.url + path, { ...init, headers: { authorization: `Bearer ${key}`, ...init.headers } })
  }

  upload(bytes: Buffer = this.#png): Promise<Response> {
    const body = new FormData()
    body.append('file', new Blob([new Uint8Array(bytes)]), 'a.png')
    body.append('purpose', 'vision')
    return this.call('/v1/files', { method: 'POST', body })
  }

  chat(): Promise<Response> {
    return this.call('/v1/chat/completions', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'service-mk1.5', messages: [{ role: 'user', content: 'Hi' }] }),
    })
  }

  /** @returns the ids of acknowledged files that are missing or damaged. */
  async missing(): Promise<string[]> {
    const missing: string[] = []
    for (const [id, digest] of this.kept) {
      const content = await this.call(`/v1/files/${id}/content`)
      if (content.status !== 200 || digestOf(Buffer.from(await content.arrayBuffer())) !== digest) missing.push(id)
    }
    return missing
  }

  /** How many errors the server counted that nothing handled. */
  async faults(): Promise<{ rejections: number; exceptions: number }> {
    const metrics = await (await fetch(this.#server.metricsUrl!)).text()
    const count = (name: string) => Number(new RegExp(`^lookout_${name}_total (\\d+)$`, 'm').exec(metrics)?.[1])
    return { rejections: count('unhandled_rejections'), exceptions: count('uncaught_exceptions') }
  }

  async #work(): Promise<void> {
    const kinds = [
      () => this.#upload(),
      () => this.#request('chat', this.chat()),
      () => this.#request('key check', this.call('/v1/models')),
      () => this.#request('list', this.call('/v1/files?limit=20')),
    ]
    while (this.#running) await kinds[randomInt(kinds.length)]!()
  }

  async #upload(): Promise<void> {
    const bytes = Buffer.concat([this.#png, randomBytes(randomInt(1, 300_000))])
    const response = await this.upload(bytes)
    const { id } = (await response.json()) as { id: string }
    this.#count('upload', response.status)
    if (response.status === 200) this.kept.set(id, digestOf(bytes))
  }

  async #request(kind: string, pending: Promise<Response>): Promise<void> {
    const response = await pending
    await response.arrayBuffer()
    this.#count(kind, response.status)
  }

  #count(kind: string, status: number): void {
    this.statuses[`${kind} ${status}`] = (this.statuses[`${kind} ${status}`] ?? 0) + 1
  }
}

function digestOf(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}
