import { setTimeout as delay } from 'node:timers/promises'
import { readEvents } from '../../src/client/event-stream.ts'
import type { BenchServer } from './server.ts'

export interface Counts {
  readonly frames: number
  readonly looks: number
  readonly dropped: Readonly<Record<'busy' | 'late' | 'rate' | 'still', number>>
}

export interface WatchEvent {
  readonly type: string
  readonly data: {
    readonly seq: number
    readonly question: string
    readonly started_at: string
    readonly frame: { readonly time: string } | null
  }
}

/** A client that has a watch, and pushes its frames. */
export class Camera {
  readonly #server: BenchServer
  readonly #id: string
  #seq = 0

  static async open(server: BenchServer, settings: object): Promise<Camera> {
    const body = { model: server.model, source: { type: 'push' }, record: { frame: false }, ...settings }
    const headers = { 'content-type': 'application/json' }
    const { id } = await ask<{ id: string }>(server, 'POST', '', { body: JSON.stringify(body), headers })
    return new Camera(server, id)
  }

  private constructor(server: BenchServer, id: string) {
    this.#server = server
    this.#id = id
  }

  /** Sends a frame, and does not wait for the look. */
  async send(frame: Buffer): Promise<void> {
    await this.#ask('POST', '/frames', { body: new Uint8Array(frame) })
  }

  /** Sends the frames, one each second, until the signal. @param phase seconds before the first. */
  async push(frames: readonly Buffer[], phase: number, signal: AbortSignal): Promise<void> {
    const started = performance.now() + phase * 1000
    for (let index = 0; !signal.aborted; index++) {
      await delay(Math.max(0, started + index * 1000 - performance.now()))
      const frame = frames[index]
      if (frame === undefined) throw new Error('The frames are used up.')
      await this.send(frame)
    }
  }

  /** Has a frame looked at. @returns the time from the start of sending until the answers came, in ms. */
  async look(frame: Buffer): Promise<number> {
    for (;;) {
      const started = performance.now()
      const { dropped } = await this.#ask<{ dropped?: string }>('POST', '/frames?wait=true', {
        body: new Uint8Array(frame),
      })
      if (dropped === undefined) return performance.now() - started
      await delay(5)
    }
  }

  /** The same, with the numbers of the events that came of it. The answers come when these are stored. */
  async lookFor(frame: Buffer): Promise<{ readonly ms: number; readonly storedAt: number; readonly told: number[] }> {
    const ms = await this.look(frame)
    const storedAt = performance.now()
    const events = await this.events()
    const told = events.filter(({ data, type }) => data.seq > this.#seq && type.startsWith('watch.event.'))
    this.#seq = events.at(-1)?.data.seq ?? 0
    return { ms, storedAt, told: told.map(({ data }) => data.seq) }
  }

  /** Reads its events as they happen, until the signal. */
  async follow(onEvent: (event: WatchEvent) => void, signal: AbortSignal): Promise<void> {
    const headers = { authorization: `Bearer ${this.#server.apiKey}` }
    const response = await fetch(`${this.#server.url}/v1/watches/${this.#id}/stream`, { headers, signal })
    try {
      for await (const event of readEvents(response.body!)) onEvent(JSON.parse(event) as WatchEvent)
    } catch (error) {
      if (!signal.aborted) throw error
    }
  }

  async events(): Promise<readonly WatchEvent[]> {
    return (await this.#ask<{ data: WatchEvent[] }>('GET', '/events?limit=1000')).data
  }

  async counts(): Promise<Counts> {
    return (await this.#ask<{ counts: Counts }>('GET', '')).counts
  }

  async close(): Promise<void> {
    await this.#ask('DELETE', '')
  }

  #ask<Answer>(method: string, path: string, init: RequestInit = {}): Promise<Answer> {
    return ask<Answer>(this.#server, method, `/${this.#id}${path}`, init)
  }
}

async function ask<Answer>(server: BenchServer, method: string, path: string, init: RequestInit): Promise<Answer> {
  const headers = { ...init.headers, authorization: `Bearer ${server.apiKey}` }
  const response = await fetch(`${server.url}/v1/watches${path}`, { ...init, method, headers })
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`)
  return (await response.json()) as Answer
}
