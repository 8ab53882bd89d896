import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import sharp from 'sharp'
import { afterEach, expect, onTestFinished, test, vi } from 'vitest'
import type { ReadQuestion } from '../src/inference/contract/work.ts'
import { changedCard } from './support/changed-card.ts'
import { jsonOf, KEY, startTestServer, type TestServer } from './support/server.ts'
import { AT_ONCE, LAMP, WatchClient } from './support/watch-client.ts'

const HOURS_AHEAD_MS = 8 * 3_600_000

/** As on a machine whose hardware clock is in local time, until the network says what time it is. */
function setClockAhead(): void {
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + HOURS_AHEAD_MS, shouldAdvanceTime: true })
}
const setClockRight = () => vi.useRealTimers()
afterEach(setClockRight)

const PICTURE = await sharp({ create: { width: 96, height: 54, channels: 3, background: 'white' } })
  .png()
  .toBuffer()

function answer({ engine }: TestServer, yes: number): void {
  const odds: Record<string, number> = { 'Yes.': yes, 'No.': 1 - yes }
  engine.script = { read: ({ replies }: ReadQuestion) => replies.map((reply) => Math.log(odds[reply] ?? 1e-9)) }
}

test('files that are stored after a clock was set back have the right time, and stay the newest', async () => {
  setClockAhead()
  const server = await startTestServer()
  onTestFinished(() => server.close())
  const bytes = await readFile('docs/pictures/shapes.png')
  const upload = async () => {
    const body = new FormData()
    body.append('purpose', 'vision')
    body.append('file', new Blob([new Uint8Array(bytes)]), 'a.png')
    const headers = { authorization: `Bearer ${KEY}` }
    const response = await fetch(`${server.url}/v1/files`, { method: 'POST', headers, body })
    return jsonOf<{ id: string; created_at: number }>(response)
  }
  const first = await upload()
  setClockRight()
  const second = await upload()
  expect(first.created_at - second.created_at).toBeGreaterThan((HOURS_AHEAD_MS - 600_000) / 1000)
  expect(second.id > first.id).toBe(true)
  const status = await jsonOf<{ uptime_seconds: number }>(await server.get('/v1/server'))
  expect(status.uptime_seconds).toBeGreaterThanOrEqual(0)
})

test('what began by a clock that was ahead does not end before it began', async () => {
  const card = await changedCard(({ decision: _decision, ...card }) => card)
  onTestFinished(() => card.remove())
  const server = await startTestServer({
    environment: { DATABASE_URL: '', LOOKOUT_WATCHES: '8', LOOKOUT_MODEL_CARD: card.path },
    watches: { beatMs: 50, silenceMs: 500 },
  })
  onTestFinished(() => server.close())
  const client = new WatchClient(server, KEY)
  const { id } = await client.made()
  const typed = async (wanted: string) => (await client.events(id)).filter(({ type }) => type === wanted)
  setClockAhead()
  answer(server, 0.9)
  await client.look(id, PICTURE)
  await expect.poll(() => typed('watch.event.started')).toHaveLength(1)
  setClockRight()
  answer(server, 0.1)
  await client.look(id, PICTURE)
  await expect.poll(() => typed('watch.event.ended')).toHaveLength(1)
  setClockAhead()
  await client.look(id, PICTURE)
  const silences = (await typed('watch.offline')).length
  await expect.poll(async () => (await typed('watch.offline')).length).toBeGreaterThan(silences)
  setClockRight()
  await client.look(id, PICTURE)
  const [[ended], onlines] = await Promise.all([typed('watch.event.ended'), typed('watch.online')])
  const spans = [{ from: ended!.data.started_at, to: ended!.data.ended_at }, ...onlines.map(({ data }) => data)]
  expect(spans.length).toBeGreaterThan(1)
  for (const { from, to } of spans) expect(Date.parse(from as string)).toBeLessThanOrEqual(Date.parse(to as string))
})

test.each([
  { cooldown: 0.1, right: 'after a server ends', changes: 3, what: 'holds up no event after a restart' },
  { cooldown: 3600, right: 'before a server ends', changes: 2, what: 'lets none come before its cooldown is over' },
])('what a watch has stored by a clock that was ahead $what', async ({ cooldown, right, changes }) => {
  const folder = await mkdtemp(join(tmpdir(), 'lookout-clock-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const card = await changedCard(({ decision: _decision, ...card }) => card)
  onTestFinished(() => card.remove())
  const start = () =>
    startTestServer({
      environment: { DATABASE_URL: '', LOOKOUT_DATA_DIR: folder, LOOKOUT_WATCHES: '8', LOOKOUT_MODEL_CARD: card.path },
    })
  setClockAhead()
  const ahead = await start()
  const { id } = await new WatchClient(ahead, KEY).made({
    questions: [{ ...LAMP, event: { ...AT_ONCE, cooldown_seconds: cooldown } }],
  })
  const before = new WatchClient(ahead, KEY)
  for (const yes of [0.9, 0.1]) {
    answer(ahead, yes)
    await before.look(id, PICTURE)
  }
  expect(await before.changes(id)).toHaveLength(2)
  if (right === 'before a server ends') setClockRight()
  await ahead.close()
  setClockRight()
  const server = await start()
  onTestFinished(() => server.close())
  const after = new WatchClient(server, KEY)
  answer(server, 0.9)
  const changed = async () => {
    await after.look(id, PICTURE)
    return after.changes(id)
  }
  // A look by which an event may rise, and the next.
  await changed()
  await expect.poll(changed).toHaveLength(changes)
  const { from, to } = (await after.events(id)).find(({ type }) => type === 'watch.gap')!.data
  expect(Date.parse(from as string)).toBeLessThanOrEqual(Date.parse(to as string))
})
