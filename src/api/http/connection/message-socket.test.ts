import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { ByteBudget } from '../body/byte-budget.ts'
import { MessageSocket } from './message-socket.ts'

test('messages of more than 128 KiB take room while they arrive, and pings and pongs take none', async () => {
  const budget = new ByteBudget(2 ** 20)
  const taken: number[] = []
  const server = new WebSocketServer({ port: 0 })
  onTestFinished(() => server.close())
  server.on('connection', (webSocket, { socket }) => {
    new MessageSocket(
      { webSocket, connection: socket },
      {
        reserve: (bytes) => budget.acquire(bytes, 'one', new AbortController().signal),
        onMessage: ({ data, release }) => {
          taken.push(budget.taken)
          release()
          webSocket.send(String(data.length))
        },
      },
    )
  })
  const client = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`)
  onTestFinished(() => client.terminate())
  await once(client, 'open')
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
