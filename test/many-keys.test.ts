import { once } from 'node:events'
import { connect } from 'node:net'
import { afterAll, beforeAll, expect, inject, onTestFinished, test, vi } from 'vitest'
import { ByteBudget } from '../src/api/http/body/byte-budget.ts'
import { TestAccounts } from './support/accounts.ts'
import { startTestServer, type TestServer } from './support/server.ts'

const ORGANISATIONS = 10
const KEYS = 10
const LIMIT = 30
/** More requests than the limit allows, by an amount that differs between neighbouring organisations. */
const requests = (organisation: number) => LIMIT + 5 + (organisation % 7)

let server: TestServer
let accounts: TestAccounts
beforeAll(async () => {
  accounts = await TestAccounts.open()
  // All requests are in one window, however long they take. Redis has a clock of its own.
  const clock = inject('redisUrl') === null ? { clock: () => 0 } : {}
  server = await startTestServer({ environment: { LOOKOUT_RATE_LIMITS: 'on' }, ...clock })
})
afterAll(async () => {
  await server?.close()
  await accounts?.close()
})

test('with 100 keys in 10 organisations, each organisation gets exactly its limit', async () => {
  const organisations = await Promise.all(
    Array.from({ length: ORGANISATIONS }, async () => {
      const { organisation, key } = await accounts.organisation()
      const keys = [key]
      // One by one, so that none waits too long for a connection.
      while (keys.length < KEYS) keys.push((await accounts.accounts.createKey({ organisation })).key)
      return keys
    }),
  )
  // The requests of an organisation are spread over its keys and sent at the same time.
  const calls = organisations.flatMap((keys, organisation) =>
    Array.from({ length: requests(organisation) }, (_, i) => ({ organisation, key: keys[i % KEYS]! })),
  )
  calls.sort((a, b) => (a.key < b.key ? -1 : 1))
  const allowed = new Array<number>(ORGANISATIONS).fill(0)
  const refused = new Array<number>(ORGANISATIONS).fill(0)
  const next = calls.values()
  const client = async () => {
    for (const { organisation, key } of next) {
      const response = await fetch(`${server.url}/v1/models`, { headers: { authorization: `Bearer ${key}` } })
      await response.arrayBuffer()
      if (response.status === 200) allowed[organisation]!++
      else if (response.status === 429) refused[organisation]!++
    }
  }
  await Promise.all(Array.from({ length: 64 }, client))
  expect(allowed).toEqual(organisations.map(() => LIMIT))
  expect(refused).toEqual(organisations.map((_, organisation) => requests(organisation) - LIMIT))
})

test('bodies of one organisation that do not arrive do not hold up those of others', async () => {
  // Room for three bodies of unknown length.
  const small = await startTestServer({ environment: { LOOKOUT_BODY_MEMORY: '64' } })
  onTestFinished(() => small.close())
  const acquire = vi.spyOn(ByteBudget.prototype, 'acquire')
  const [slow, other] = [await accounts.organisation(), await accounts.organisation()]
  const head = (key: string) =>
    ['POST /v1/chat/completions HTTP/1.1', 'Host: x', `Authorization: Bearer ${key}`, 'Transfer-Encoding: chunked']
      .concat('Content-Type: application/json', '', '1', '{', '')
      .join('\r\n')
  const sockets = await Promise.all(
    Array.from({ length: 4 }, async () => {
      const socket = connect(Number(new URL(small.url).port), '127.0.0.1')
      onTestFinished(() => void socket.destroy())
      await once(socket, 'connect')
      socket.write(head(slow.key))
      return socket
    }),
  )
  const ask = (key: string, signal: AbortSignal) =>
    fetch(`${small.url}/v1/chat/completions`, {
      ...{ method: 'POST', signal },
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: `${JSON.stringify({ model: 'service-mk1.5', messages: [{ role: 'user', content: 'Hi' }] })}${' '.repeat(200_000)}`,
    })
  await expect.poll(() => acquire.mock.calls.length).toBe(sockets.length)
  for (let i = 0; i < 3; i++) expect((await ask(other.key, AbortSignal.timeout(30_000))).status).toBe(200)
  for (const socket of sockets) socket.destroy()
  expect((await ask(slow.key, AbortSignal.timeout(30_000))).status).toBe(200)
})
