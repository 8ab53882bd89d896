import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { BODY_LIMIT_BYTES } from '../body/body-reader.ts'
import { ByteBudget } from '../body/byte-budget.ts'
import { MessageSocket } from './message-socket.ts'

/** Answers each message with its length. @param taken gets the bytes of the budget that are taken at each message. */
function listen(budget: ByteBudget, taken: number[] = []) {
  const server = new WebSocketServer({ port: 0 })
  onTestFinished(() => server.close())
  server.on('connection', (webSocket, { socket }) => {
    new MessageSocket(
      { webSocket, connection: socket },
      {
        reserve: (bytes, isBegun) => budget.acquire(bytes, 'one', new AbortController().signal, isBegun),
        onMessage: ({ data, lease }) => {
          taken.push(budget.taken)
          lease?.release()
          webSocket.send(String(data.length))
        },
      },
    )
  })
  return async () => {
    const client = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`)
    onTestFinished(() => client.terminate())
    await once(client, 'open')
    return client
  }
}

test('messages of more than 128 KiB take room while they arrive, and pings and pongs take none', async () => {
  const budget = new ByteBudget(2 ** 20)
  const taken: number[] = []
  const client = await listen(budget, taken)()
  for (let pings = 0; pings < 3_000; pings++) {
    client.ping(Buffer.alloc(125))
    await once(client, 'pong')
  }
  for (const size of [100_000, 500_000, 100_000]) {
    client.send(Buffer.alloc(size))
    expect(String((await once(client, 'message'))[0])).toBe(String(size))
  }
  expect(taken).toEqual([0, expect.any(Number), 0])
  expect(taken[1]).toBeGreaterThan(300_000)
  expect(budget.taken).toBe(0)
})

test('messages of one organisation that have begun do not wait for each other, nor behind its next body', async () => {
  const budget = new ByteBudget(64 * 2 ** 20)
  const open = listen(budget)
  const clients = await Promise.all([open(), open()])
  for (const client of clients) client.send(Buffer.alloc(15 * 2 ** 20), { fin: false })
  await expect.poll(() => budget.taken).toBeGreaterThan(31 * 2 ** 20)
  const body = budget.acquire(20 * 2 ** 20, 'one', new AbortController().signal)
  const ended = clients.map((client) => once(client, 'message'))
  for (const client of clients) client.send(Buffer.alloc(3 * 2 ** 20))
  expect((await Promise.all(ended)).map(([length]) => String(length))).toEqual(Array(2).fill(String(18 * 2 ** 20)))
  await body
})

test('the largest message needs no more room than a body of its size', async () => {
  const budget = new ByteBudget(BODY_LIMIT_BYTES)
  const taken: number[] = []
  const client = await listen(budget, taken)()
  client.send(Buffer.alloc(BODY_LIMIT_BYTES))
  expect(String((await once(client, 'message'))[0])).toBe(String(BODY_LIMIT_BYTES))
  expect(taken).toEqual([BODY_LIMIT_BYTES])
})
