import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { expect, onTestFinished } from 'vitest'
import { type ClientOptions, WebSocket } from 'ws'
import type { ErrorBody } from '../../src/lib/errors/errors.ts'

/** What a server sends: a reply to a frame, an event or a look. */
export interface SocketMessage extends Record<string, unknown> {
  readonly type?: string
  readonly error?: ErrorBody['error']
}

/** A client of the socket of one watch. */
export class WatchSocket {
  readonly socket: WebSocket
  readonly messages: SocketMessage[] = []

  private constructor(socket: WebSocket) {
    this.socket = socket
    socket.on('message', (data) => this.messages.push(JSON.parse(String(data))))
    socket.on('error', () => {})
  }

  /** Connects for the time of the test. */
  static async open(url: string, key: string, options: ClientOptions = {}): Promise<WatchSocket> {
    const headers = { authorization: `Bearer ${key}` }
    const socket = new WebSocket(url.replace(/^http/, 'ws'), { headers, ...options })
    onTestFinished(() => socket.terminate())
    const opened = new WatchSocket(socket)
    await once(socket, 'open')
    return opened
  }

  /** Replies to frames, in the order in which they came. */
  get replies(): readonly SocketMessage[] {
    return this.messages.filter(({ type }) => type === 'frame.accepted' || type === 'error')
  }

  get events(): readonly SocketMessage[] {
    return this.messages.filter(({ object }) => object === 'event')
  }

  get looks(): readonly SocketMessage[] {
    return this.messages.filter(({ object }) => object === 'look')
  }

  /** Sends a frame, after what is to be said of it. @returns its reply. */
  async push(frame: Uint8Array, note?: object): Promise<SocketMessage> {
    const before = this.replies.length
    if (note) this.socket.send(JSON.stringify(note))
    this.socket.send(frame)
    await expect.poll(() => this.replies.length, { interval: 5 }).toBeGreaterThan(before)
    return this.replies[before]!
  }

  /** Sends a frame until there is a look at it, and waits for the look. */
  async look(frame: Uint8Array, note: object = {}): Promise<SocketMessage> {
    let reply: SocketMessage = {}
    const push = async () => {
      reply = await this.push(frame, { type: 'frame', wait: true, ...note })
      return reply
    }
    await expect.poll(push, { interval: 20 }).toHaveProperty('answers')
    return reply
  }

  /** The code and the reason with which the connection ends. */
  async closed(): Promise<readonly [code: number, reason: string]> {
    const [code, reason] = (await once(this.socket, 'close')) as [number, Buffer]
    return [code, String(reason)]
  }
}

/** The answer to a handshake that is refused. */
export async function refusalOf(
  url: string,
  options: ClientOptions & { readonly protocols?: string[] } = {},
): Promise<{ readonly status: number; readonly error: ErrorBody['error'] }> {
  const { protocols = [], ...others } = options
  const socket = new WebSocket(url.replace(/^http/, 'ws'), protocols, others)
  const [request, response] = (await once(socket, 'unexpected-response')) as [unknown, IncomingMessage]
  const ended = once(response.socket, 'close')
  const { error } = JSON.parse(Buffer.concat(await response.toArray()).toString()) as ErrorBody
  await ended
  expect(request).toBeDefined()
  return { status: response.statusCode!, error }
}
