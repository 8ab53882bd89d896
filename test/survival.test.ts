import { createHash, randomBytes, randomInt } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { sql } from 'drizzle-orm'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { cacheDirectory } from '../src/setup/native-library.mjs'
import { Database } from '../src/storage/database.ts'
import { type SilentServer, startSilentServer } from './support/silent-server.ts'

/** How often the server is killed. Releases are tested with 50. */
const KILLS = Number(process.env.LOOKOUT_TEST_KILLS ?? 3)
const KEY = 'survivor'
const WORKERS = 6

let directory: string
let png: Buffer
beforeAll(async () => {
  png = await readFile(new URL('../docs/pictures/shapes.png', import.meta.url))
  directory = await mkdtemp(join(tmpdir(), 'lookout-survival-'))
})
afterAll(() => rm(directory, { recursive: true, force: true, maxRetries: 5 }))

/** Acknowledged uploads, by id, with the hash of their content; acknowledged deletions and chats below. */
const kept = new Map<string, string>()
const deleted = new Set<string>()
/** Deletions that were requested but not acknowledged: the file may exist or not. */
const unacknowledged = new Set<string>()
const chats = new Set<string>()
/** Number of responses by kind of request and status. */
const statuses: Record<string, number> = {}

function count(kind: string, { status }: Response): void {
  statuses[`${kind} ${status}`] = (statuses[`${kind} ${status}`] ?? 0) + 1
}

test(`killed ${KILLS} times under load, the server loses nothing that it has acknowledged`, {
  timeout: 60_000 + KILLS * 30_000,
}, async () => {
  for (let round = 0; round < KILLS; round++) {
    const server = await start()
    await verify(server.url)
    const [answered, stored] = [chats.size, kept.size + deleted.size]
    const load = Array.from({ length: WORKERS }, () => work(server.url))
    // Kill the server only after it has acknowledged something that could be lost.
    await vi.waitUntil(() => chats.size > answered + 1 && kept.size + deleted.size > stored + 1, { timeout: 60_000 })
    await delay(randomInt(300, 1200))
    // The embedded database is a process of its own. In some rounds it is killed too, before or after the server.
    const database = round % 3 === 0 ? [] : await childrenOf(server.child.pid!)
    for (const pid of round % 3 === 1 ? database : []) process.kill(pid, 'SIGKILL')
    server.child.kill('SIGKILL')
    for (const pid of round % 3 === 2 ? database : []) process.kill(pid, 'SIGKILL')
    await once(server.child, 'exit')
    await Promise.all(load)
  }
  const server = await start()
  await verify(server.url)
  // At the end the ledger is written to the database, each row once.
  const exit = once(server.child, 'exit')
  server.child.kill('SIGTERM')
  expect(await exit).toEqual([0, null])
  const options = { url: null, directory: join(directory, 'database'), cacheDirectory: cacheDirectory() }
  const database = await Database.open(options)
  const rows = await database.execute<{ id: string }>(sql`select trace_id as id from usage`)
  await database.close()
  const known = new Set(rows.map(({ id }) => id))
  const unknown = [...chats].filter((id) => !known.has(id))
  console.info(
    `${KILLS} kills: ${kept.size} uploads, ${deleted.size} deletions and ${chats.size} chats acknowledged; no file lost, ` +
      `${unknown.length} chats without a usage row; answers ${JSON.stringify(statuses)}`,
  )
  expect(unknown).toEqual([])
  expect(chats.size).toBeGreaterThan(KILLS)
  expect(kept.size + deleted.size).toBeGreaterThan(KILLS)
  expect(deleted.size).toBeGreaterThan(0)
})

function start(): Promise<SilentServer> {
  return startSilentServer({ LOOKOUT_API_KEY: KEY, LOOKOUT_DATA_DIR: directory })
}

/** Uploads, deletes and chats until the server is killed. */
async function work(url: string): Promise<void> {
  const headers = { authorization: `Bearer ${KEY}` }
  try {
    for (;;) {
      const turn = randomInt(10)
      if (turn < 5) {
        const bytes = Buffer.concat([png, randomBytes(randomInt(1, 300_000))])
        const body = new FormData()
        body.append('file', new Blob([bytes]), 'a.png')
        body.append('purpose', 'vision')
        const response = await fetch(`${url}/v1/files`, { method: 'POST', headers, body })
        const { id } = (await response.json()) as { id: string }
        count('upload', response)
        if (response.status === 200) kept.set(id, digest(bytes))
      } else if (turn < 7) {
        const id = [...kept.keys()].find((id) => !deleted.has(id) && !unacknowledged.has(id))
        if (id === undefined) continue
        unacknowledged.add(id)
        const response = await fetch(`${url}/v1/files/${id}`, { method: 'DELETE', headers })
        await response.json()
        count('delete', response)
        if (response.status === 200) deleted.add(id)
      } else {
        const response = await fetch(`${url}/v1/chat/completions`, {
          method: 'POST',
          headers: { ...headers, 'content-type': 'application/json' },
          body: JSON.stringify({ model: 'service-mk1.5', messages: [{ role: 'user', content: 'Hi' }] }),
        })
        await response.json()
        count('chat', response)
        if (response.status === 200) chats.add(response.headers.get('x-trace-id')!)
      }
    }
  } catch {
    // The server was killed.
  }
}

/** Expects every acknowledged file to be intact, every deleted one to be absent, and no other files on disk. */
async function verify(url: string): Promise<void> {
  const get = (path: string) => fetch(url + path, { headers: { authorization: `Bearer ${KEY}` } })
  const { data } = (await (await get('/v1/files')).json()) as { data: { id: string; bytes: number }[] }
  const listed = new Map(data.map((file) => [file.id, file.bytes]))
  for (const [id, hash] of kept) {
    if (unacknowledged.has(id) && !deleted.has(id) && !listed.has(id)) {
      deleted.add(id)
      continue
    }
    expect(listed.has(id), id).toBe(!deleted.has(id))
    const content = await get(`/v1/files/${id}/content`)
    expect(content.status).toBe(deleted.has(id) ? 404 : 200)
    const bytes = Buffer.from(await content.arrayBuffer())
    if (!deleted.has(id)) expect(digest(bytes)).toBe(hash)
  }
  for (const [id, bytes] of listed) {
    // A file that was stored but not acknowledged must be complete.
    if (!kept.has(id)) expect((await (await get(`/v1/files/${id}/content`)).arrayBuffer()).byteLength).toBe(bytes)
  }
  const blobs = async () => {
    const names = await readdir(join(directory, 'files', 'kept'), { recursive: true })
    return names
      .filter((name) => name.includes('file-'))
      .map((name) => name.split('/').at(-1)!)
      .sort()
  }
  await expect.poll(blobs).toEqual([...listed.keys()].sort())
  const drafts = await readdir(join(directory, 'files', 'drafts'))
  expect(drafts.filter((name) => !name.startsWith('lock'))).toEqual([])
}

function digest(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}

/** The database processes among a process's children, on Linux; elsewhere none, and they end by themselves. */
async function childrenOf(pid: number): Promise<number[]> {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '')
  const pids = text.trim().split(' ').filter(Boolean).map(Number)
  const databases: number[] = []
  for (const child of pids) {
    const command = await readFile(`/proc/${child}/cmdline`, 'utf8').catch(() => '')
    if (command.includes('database-process')) databases.push(child)
  }
  return databases
}
