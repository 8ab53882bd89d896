import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import sharp from 'sharp'
import { expect, onTestFinished, test } from 'vitest'
import { jsonOf, KEY } from './support/server.ts'
import { type SilentServer, startSilentServer } from './support/silent-server.ts'
import type { WatchEvent } from './support/watch-client.ts'
import { WebhookReceiver } from './support/webhook-receiver.ts'

/** How often a server is killed. */
const KILLS = Number(process.env.LOOKOUT_TEST_KILLS ?? 3)
const RULE = { for_seconds: 0, clear_seconds: 0 }

interface Webhooked extends Record<string, unknown> {
  readonly webhook: { readonly pending: number }
}

test(`a watch whose server is killed ${KILLS} times goes on, and tells each change once, to its webhook too`, {
  timeout: 120_000 + KILLS * 15_000,
}, async () => {
  const directory = await mkdtemp(join(tmpdir(), 'lookout-watches-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true, maxRetries: 5 }))
  const hook = await WebhookReceiver.start()
  onTestFinished(() => hook.close())
  // It refuses every third event at first, and leaves every eleventh without an answer.
  hook.answer = ({ event }) => {
    const { seq } = event.data
    const isFirst = hook.received.filter((one) => one.event.id === event.id).length === 1
    if (isFirst && seq % 11 === 0) return null
    return { status: isFirst && seq % 3 === 0 ? 500 : 200 }
  }
  const start = async () => {
    const server = await startSilentServer({
      ...{ LOOKOUT_API_KEY: KEY, LOOKOUT_DATA_DIR: directory, LOOKOUT_WEBHOOK_HOSTS: '127.0.0.1' },
    })
    onTestFinished(() => void server.child.kill('SIGKILL'))
    return server
  }
  const solid = (background: string) => sharp({ create: { width: 64, height: 64, channels: 3, background } })
  const pictures = await Promise.all(['white', 'black'].map((colour) => solid(colour).png().toBuffer()))
  let server = await start()
  const ask = (path: string, body?: Uint8Array | string, { url }: SilentServer = server) =>
    fetch(`${url}/v1/watches${path}`, {
      headers: {
        authorization: `Bearer ${KEY}`,
        ...(typeof body === 'string' && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { method: 'POST', body: typeof body === 'string' ? body : new Uint8Array(body) }),
    })
  const question = { name: 'lamp', type: 'predicate', instructions: 'Is it on?', event: RULE }
  const webhook = { url: hook.url }
  const watch = { model: 'service-mk1.5', source: { type: 'push' }, fps: 10, questions: [question], webhook }
  const { id } = await jsonOf<{ id: string }>(await ask('', JSON.stringify(watch)))
  const events = async () => (await jsonOf<{ data: WatchEvent[] }>(await ask(`/${id}/events?limit=1000`))).data
  /** What was seen before each kill. */
  const seen = new Map<number, string>()
  for (let kills = 0; kills <= KILLS; kills++) {
    // It takes frames at once, though the lease of the server before has not ended.
    await expect
      .poll(async () => (await ask(`/${id}/frames?wait=true`, pictures[0]!)).status, { interval: 50 })
      .toBe(200)
    let isOver = false
    const pushing = (async () => {
      for (let frame = 1; !isOver; frame++) {
        const pushed = await ask(`/${id}/frames`, pictures[frame % 2]!, server).catch(() => null)
        if (pushed === null) return
        await delay(105)
      }
    })()
    const before = (await events()).length
    await expect.poll(async () => (await events()).length, { interval: 20 }).toBeGreaterThan(before + 4)
    for (const { data, id } of await events()) seen.set(data.seq, id)
    if (kills === KILLS) {
      isOver = true
      await pushing
      break
    }
    await delay(randomInt(0, 100))
    server.child.kill('SIGKILL')
    await Promise.all([once(server.child, 'exit'), pushing])
    server = await start()
  }
  const told = await events()
  const pending = async () => (await jsonOf<Webhooked>(await ask(`/${id}`))).webhook.pending
  await expect.poll(pending, { interval: 100 }).toBe(0)
  server.child.kill('SIGKILL')
  // Each was sent at least once, and always as it is stored.
  const sent = new Map(hook.eventsOf(id).map((event) => [event.data.seq, event]))
  for (const event of told) expect(sent.get(event.data.seq)).toEqual(event)
  for (const event of hook.eventsOf(id)) expect(event).toEqual(sent.get(event.data.seq))
  expect(told.map(({ data }) => data.seq)).toEqual(told.map((_, i) => i + 1))
  // What was told before a kill is what is stored.
  for (const [seq, id] of seen) expect(told[seq - 1]!.id).toBe(id)
  const changes = told.filter(({ type }) => type.startsWith('watch.event.'))
  expect(changes.map(({ type }) => type)).toEqual(
    changes.map((_, i) => (i % 2 === 0 ? 'watch.event.started' : 'watch.event.ended')),
  )
  for (const [i, { data }] of changes.entries())
    if (i % 2 === 1) expect(data.happening).toBe(changes[i - 1]!.data.happening)
  expect(new Set(changes.map(({ data }) => data.happening)).size).toBe(Math.ceil(changes.length / 2))
  const gaps = told.filter(({ type, data }) => type === 'watch.gap' && data.reason === 'stopped')
  expect(gaps).toHaveLength(KILLS)
})
