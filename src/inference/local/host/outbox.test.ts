import type { ChildProcess } from 'node:child_process'
import { setImmediate as nextTurn } from 'node:timers/promises'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type Envelope, pack, unpack } from '../envelope.ts'
import type { ToEngine } from '../protocol.ts'
import { Inbox } from '../worker/inbox.ts'
import { Outbox } from './outbox.ts'

/** The other end of a channel that takes one message at a time. */
class Channel {
  readonly connected = true
  /** Complete messages, in order of arrival. */
  readonly arrived: ToEngine[] = []
  readonly #inbox = new Inbox()
  readonly #waiting: (() => void)[] = []

  send(message: ToEngine, written: () => void): void {
    if (message.type === 'abort') this.#inbox.drop(message.id)
    const complete = message.type === 'piece' ? this.#inbox.take(message) : message
    if (complete !== null) this.arrived.push(complete)
    this.#waiting.push(written)
  }

  /** Has room for more. */
  async drain(): Promise<void> {
    for (let written = this.#waiting.shift(); written !== undefined; written = this.#waiting.shift()) {
      await nextTurn()
      written()
    }
  }
}

function open(): { readonly channel: Channel; readonly outbox: Outbox } {
  const channel = new Channel()
  return { channel, outbox: new Outbox(channel as unknown as ChildProcess, (_, error) => expect.fail(error.message)) }
}

const generate = (id: number, bytes: number): ToEngine => ({
  type: 'generate',
  id,
  work: pack({ id, pixels: new Uint8Array(bytes).fill(id) }),
  traced: false,
})
/** The id of a work of `generate`, and how many bytes of it are right. */
const sizeOf = (message: ToEngine) => {
  const { id, pixels } = unpack<{ id: number; pixels: Uint8Array }>((message as { work: Envelope }).work)
  return `${id}: ${pixels.filter((byte) => byte === id % 256).length}`
}
const idsOf = (messages: readonly ToEngine[]) => messages.map((message) => ('id' in message ? message.id : null))

test('whatever is sent arrives once, as it was sent', async () => {
  const sizes = fc.array(fc.record({ bytes: fc.nat(300_000), isBackground: fc.boolean() }), { maxLength: 8 })
  await fc.assert(
    fc.asyncProperty(sizes, async (messages) => {
      const { channel, outbox } = open()
      for (const [id, { bytes, isBackground }] of messages.entries()) outbox.send(generate(id, bytes), isBackground)
      await channel.drain()
      expect(channel.arrived.map(sizeOf).sort()).toEqual(messages.map(({ bytes }, id) => `${id}: ${bytes}`).sort())
    }),
    { numRuns: 50 },
  )
})

test('small messages overtake large ones, and those in the background come last', async () => {
  const { channel, outbox } = open()
  outbox.send(generate(1, 1_000_000), true)
  outbox.send(generate(2, 1_000_000))
  outbox.send(generate(3, 1_000_000))
  outbox.send(generate(4, 100))
  outbox.send({ type: 'stats', id: 5 })
  await channel.drain()
  expect(idsOf(channel.arrived)).toEqual([4, 5, 2, 3, 1])
})

test('what is aborted does not arrive', async () => {
  const { channel, outbox } = open()
  outbox.send(generate(1, 1_000_000))
  outbox.send(generate(2, 1_000_000))
  outbox.send({ type: 'abort', id: 2 })
  outbox.send({ type: 'abort', id: 1 })
  outbox.send(generate(3, 1_000_000))
  await channel.drain()
  // The first one had begun, so its abort was sent.
  expect(channel.arrived.map(({ type }) => type)).toEqual(['abort', 'generate'])
  expect(idsOf(channel.arrived)).toEqual([1, 3])
})
