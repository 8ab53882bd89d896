import { randomBytes } from 'node:crypto'
import { expect, onTestFinished } from 'vitest'
import { Accounts } from '../../src/accounts/accounts.ts'
import type { Scope } from '../../src/accounts/api-key.ts'
import { readEvents } from '../../src/client/event-stream.ts'
import type { Database } from '../../src/storage/database.ts'
import type { OrganisationLimits } from '../../src/storage/schema.ts'
import { jsonOf, type TestServer } from './server.ts'

/** No durations: each look decides. */
export const AT_ONCE = { for_seconds: 0, clear_seconds: 0 }
export const LAMP = { name: 'lamp', type: 'predicate', instructions: 'Is the lamp on?', event: AT_ONCE }
export const WATCH = { model: 'service-mk1.5', source: { type: 'push' }, fps: 10, motion: null, questions: [LAMP] }

export interface Watch {
  readonly id: string
  readonly status: string
  readonly [field: string]: unknown
}

export interface WatchEvent {
  readonly id: string
  readonly type: string
  readonly data: { readonly seq: number; readonly [field: string]: unknown }
}

/** A client of one organisation. */
export class WatchClient {
  readonly #server: Pick<TestServer, 'url'>
  readonly #headers: Record<string, string>

  constructor(server: Pick<TestServer, 'url'>, key: string) {
    this.#server = server
    this.#headers = { authorization: `Bearer ${key}` }
  }

  ask(method: string, path: string, body?: object, headers = {}): Promise<Response> {
    const isBytes = body instanceof Uint8Array
    return fetch(`${this.#server.url}/v1/watches${path}`, {
      method,
      headers: { ...this.#headers, ...(body && !isBytes && { 'content-type': 'application/json' }), ...headers },
      ...(body && { body: isBytes ? new Uint8Array(body) : JSON.stringify(body) }),
    })
  }

  async cameras(): Promise<{ readonly data: readonly object[] }> {
    return jsonOf(await fetch(`${this.#server.url}/v1/cameras`, { headers: this.#headers }))
  }

  /** Makes a watch. It is deleted after the test: others need its place. */
  async made(changes: object = {}): Promise<Watch> {
    const response = await this.ask('POST', '', { ...WATCH, ...changes })
    expect(response.status, await response.clone().text()).toBe(201)
    const watch = await jsonOf<Watch & Record<string, unknown>>(response)
    onTestFinished(async () => void (await this.ask('DELETE', `/${watch.id}`).catch(() => {})))
    return watch
  }

  async find(id: string): Promise<Watch> {
    return jsonOf<Watch & Record<string, unknown>>(await this.ask('GET', `/${id}`))
  }

  /** What has started and ended. A machine that stands still makes gaps, which are told too. */
  async changes(id: string): Promise<readonly WatchEvent[]> {
    return (await this.events(id)).filter(({ type }) => type.startsWith('watch.event.'))
  }

  async events(id: string): Promise<readonly WatchEvent[]> {
    const page = await jsonOf<{ data: WatchEvent[] }>(await this.ask('GET', `/${id}/events?limit=1000`))
    return page.data
  }

  /** Pushes a frame until the rate allows it, and waits for the look. */
  async look(id: string, picture: Uint8Array, headers = {}): Promise<unknown> {
    let looked: unknown
    const push = async () => {
      const response = await this.ask('POST', `/${id}/frames?wait=true`, picture, headers)
      looked = await response.json()
      return response.status
    }
    await expect.poll(push, { interval: 20 }).toBe(200)
    return looked
  }

  /** Reads a stream until it has `count` events, or ends. */
  async stream(id: string, count: number, query = '', headers = {}): Promise<Record<string, unknown>[]> {
    return eventsOf(await this.ask('GET', `/${id}/stream${query}`, undefined, headers), count)
  }
}

/** Reads the reply to a stream until it has `count` events, or ends. */
export async function eventsOf(response: Response, count: number): Promise<Record<string, unknown>[]> {
  const events = []
  for await (const event of readEvents(response.body!)) {
    events.push(JSON.parse(event))
    if (events.length === count) break
  }
  return events
}

/** Makes an organisation and a key for it. */
export async function newKey(
  database: Database,
  { scopes, limits = {} }: { readonly scopes?: readonly Scope[]; readonly limits?: OrganisationLimits } = {},
): Promise<{ organisation: string; key: string }> {
  const accounts = new Accounts(database)
  const organisation = `test-${randomBytes(6).toString('hex')}`
  await accounts.createOrganisation(organisation, limits)
  const { key } = await accounts.createKey({ organisation, ...(scopes && { scopes }) })
  return { organisation, key }
}
