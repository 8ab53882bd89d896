import type { ChildProcess } from 'node:child_process'
import { fstatSync, ftruncateSync } from 'node:fs'
import { setImmediate as nextTurn } from 'node:timers/promises'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { countSharedFiles } from '../../../../test/support/shared-files.ts'
import { PRIORITIES } from '../../contract/priority.ts'
import { type Envelope, pack, unpack } from '../envelope.ts'
import type { ToEngine } from '../protocol.ts'
import { SharedFile } from '../shared-file.ts'
import { Inbox } from '../worker/inbox.ts'
import { Outbox } from './outbox.ts'

type Options = { readonly file?: SharedFile | null; readonly isSlow?: boolean }

/** Both ends, in one process. */
class Connection implements Disposable {
  readonly connected = true
  /** Complete messages, in order of arrival. */
  readonly arrived: ToEngine[] = []
  readonly lost: number[] = []
  /** Messages in the file that a busy engine has not read. */
  readonly unread: Extract<ToEngine, { readonly type: 'shared' }>[] = []
  readonly file: SharedFile | null
  readonly outbox: Outbox
  readonly #inbox: Inbox
  readonly #isSlow: boolean

  constructor({ file = SharedFile.create(), isSlow = false }: Options = {}) {
    this.file = file
    this.outbox = new Outbox(this as unknown as ChildProcess, file, (id) => this.lost.push(id))
    this.#inbox = new Inbox(file?.descriptor ?? -1)
    this.#isSlow = isSlow
  }

  send(message: ToEngine, written: () => void): void {
    setImmediate(written)
    if (message.type === 'abort') this.#inbox.drop(message.id)
    if (message.type !== 'shared') this.arrived.push(message)
    else if (this.#isSlow) this.unread.push(message)
    else void this.read(message)
  }

  async read(message: Extract<ToEngine, { readonly type: 'shared' }>): Promise<void> {
    try {
      const complete = await this.#inbox.take(message)
      if (complete !== null) this.arrived.push(complete)
    } catch {
      this.lost.push(message.id)
    } finally {
      this.outbox.received()
    }
  }

  /** Resolves when the file has no unread messages. */
  async isDrained(): Promise<void> {
    await until(() => this.sharedBytes).toBe(0)
  }

  get sharedBytes(): number {
    return this.file === null ? 0 : fstatSync(this.file.descriptor).size
  }

  [Symbol.dispose](): void {
    this.outbox.close()
  }
}

const until = (value: () => number) => expect.poll(value, { interval: 1 })

const generate = (id: number, bytes: number): ToEngine => ({
  type: 'generate',
  id,
  work: pack({ id, pixels: new Uint8Array(bytes).fill(id), samples: Float32Array.of(id, 0.5) }),
  traced: false,
})
/** The id of a work of `generate`, and how many bytes of it are right. */
const sizeOf = (message: ToEngine) => {
  const { work } = message as { work: Envelope }
  const { id, pixels, samples } = unpack<{ id: number; pixels: Uint8Array; samples: Float32Array }>(work)
  expect(samples).toEqual(Float32Array.of(id, 0.5))
  return `${id}: ${pixels.filter((byte) => byte === id % 256).length}`
}
const idsOf = (messages: readonly ToEngine[]) => messages.map((message) => ('id' in message ? message.id : null))

test.each([
  ['in memory', () => SharedFile.create()],
  ['on the disk', () => SharedFile.create({ inMemory: false })],
  ['that is missing', () => null],
])('all that is sent through a file %s arrives once, as it was sent', async (_, create) => {
  const sizes = fc.array(fc.record({ bytes: fc.nat(300_000), priority: fc.constantFrom(...PRIORITIES) }), {
    maxLength: 8,
  })
  await fc.assert(
    fc.asyncProperty(sizes, async (messages) => {
      using connection = new Connection({ file: create() })
      const { outbox, arrived } = connection
      for (const [id, { bytes, priority }] of messages.entries()) outbox.send(generate(id, bytes), priority)
      await until(() => arrived.length).toBe(messages.length)
      await connection.isDrained()
      expect(arrived.map(sizeOf).sort()).toEqual(messages.map(({ bytes }, id) => `${id}: ${bytes}`).sort())
    }),
    { numRuns: 20 },
  )
})

test('small messages overtake large ones, and those in the background come last', async () => {
  using connection = new Connection({ isSlow: true })
  const { outbox, arrived, unread } = connection
  // Fills the file.
  outbox.send(generate(1, 40 * 2 ** 20), 'background')
  outbox.send(generate(2, 1_000_000), 'background')
  outbox.send(generate(3, 1_000_000))
  outbox.send(generate(4, 1_000_000))
  outbox.send(generate(5, 100))
  outbox.send({ type: 'stats', id: 6 })
  await until(() => unread.length).toBe(1)
  await connection.read(unread[0]!)
  await until(() => unread.length).toBe(4)
  expect(idsOf(arrived)).toEqual([5, 6, 1])
  expect(unread.map(({ id }) => id)).toEqual([1, 3, 4, 2])
})

test('an engine that does not read has little to read', async () => {
  using connection = new Connection({ isSlow: true })
  const { outbox, unread } = connection
  for (let id = 0; id < 20; id++) outbox.send(generate(id, 3 * 2 ** 20))
  await until(() => unread.length).toBe(10)
  for (let turn = 0; turn < 100; turn++) await nextTurn()
  expect(unread).toHaveLength(10)
  expect(connection.sharedBytes).toBeLessThanOrEqual(32 * 2 ** 20)
  for (let read = 0; read < 20; read++) {
    await until(() => unread.length).toBeGreaterThan(read)
    await connection.read(unread[read]!)
  }
  await connection.isDrained()
  expect(connection.arrived).toHaveLength(20)
})

test('aborted messages do not arrive, and leave nothing in the file', async () => {
  using connection = new Connection()
  const { outbox, arrived } = connection
  outbox.send(generate(1, 1_000_000))
  outbox.send({ type: 'abort', id: 1 })
  await connection.isDrained()
  expect(arrived).toEqual([])
  outbox.send(generate(2, 1_000_000))
  outbox.send(generate(3, 1_000_000))
  outbox.send({ type: 'abort', id: 3 })
  await until(() => arrived.length).toBe(1)
  await connection.isDrained()
  // Now it has arrived, so the abort is sent.
  outbox.send({ type: 'abort', id: 2 })
  expect(arrived.map(({ type }) => type)).toEqual(['generate', 'abort'])
})

test('only the message whose file was truncated is lost', async () => {
  using connection = new Connection({ isSlow: true })
  const { outbox, unread, lost, arrived, file } = connection
  outbox.send(generate(1, 1_000_000))
  await until(() => unread.length).toBe(1)
  ftruncateSync(file!.descriptor, 1000)
  await connection.read(unread[0]!)
  expect(lost).toEqual([1])
  outbox.send(generate(2, 1_000_000))
  await until(() => unread.length).toBe(2)
  await connection.read(unread[1]!)
  expect(arrived.map(sizeOf)).toEqual(['2: 1000000'])
})

test.runIf(process.platform === 'linux')(
  'a file is closed with its outbox, even while it is being written',
  async () => {
    const connection = new Connection()
    connection.outbox.send(generate(1, 10_000_000))
    connection.outbox.close()
    connection.outbox.close()
    await until(countSharedFiles).toBe(0)
    expect(connection.arrived).toEqual([])
  },
)
