import { execFile, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmod, chown, lstat, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest'
import { keys } from '../src/commands/accounts/keys.ts'
import { orgs } from '../src/commands/accounts/orgs.ts'
import { usage } from '../src/commands/accounts/usage.ts'
import { socketPath } from '../src/storage/embedded/address.ts'
import * as tables from '../src/storage/schema.ts'
import { TestAccounts } from './support/accounts.ts'
import { bareEnvironment, outcomeHere } from './support/command-line.ts'
import { FakeEngine } from './support/fake-engine.ts'
import { freePort } from './support/free-port.ts'
import { startTestServer, type TestServer } from './support/server.ts'

/** The commands, beside a running server. */
let server: TestServer
let directory: string
const organisation = `commands-${process.pid}-${Date.now()}`
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'lookout-commands-'))
  server = await startTestServer({ environment: { LOOKOUT_RATE_LIMITS: 'on' } })
})
afterAll(async () => {
  await server?.close()
  await rm(directory, { recursive: true, force: true })
})

interface Outcome {
  code: number
  stdout: string
  stderr: string
}

const settings = () => ({ LOOKOUT_DATA_DIR: directory, DATABASE_URL: inject('databaseUrl') })

const lookout = (...args: readonly string[]) => lookoutIn({}, ...args)

function lookoutIn(environment: Record<string, string>, ...args: readonly string[]): Promise<Outcome> {
  const env = { ...bareEnvironment(), ...settings(), ...environment }
  return new Promise((resolve) => {
    execFile(process.execPath, ['src/main.ts', ...args], { env }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr })
    })
  })
}

const status = async (key: string, path = '/v1/models') =>
  (await fetch(server.url + path, { headers: { authorization: `Bearer ${key}` } })).status

async function makeKey(...options: readonly string[]): Promise<{ key: string; id: string }> {
  const made = await lookout('keys', 'create', '--org', organisation, ...options)
  expect(made).toMatchObject({ code: 0, stdout: expect.stringMatching(/^lk-[0-9A-Za-z]{43}\n$/) })
  return { key: made.stdout.trim(), id: /key-[0-9a-f]{16}/.exec(made.stderr)![0] }
}

/** A key that the command makes for a few seconds may expire before a busy machine has asked with it. */
async function expire(id: string): Promise<void> {
  const { database } = await TestAccounts.open()
  await database.use((queries) =>
    queries.update(tables.apiKeys).set({ expiresAt: new Date() }).where(eq(tables.apiKeys.id, id)),
  )
  await database.close()
}

describe('organisations and keys', () => {
  test('are made, listed without their keys, limited and revoked', async () => {
    const made = await lookout('orgs', 'create', organisation, '--requests', 'models=3')
    expect(made).toMatchObject({ code: 0 })
    expect((await lookout('orgs', 'list')).stdout).toMatch(new RegExp(`^${organisation} +active .* models=3$`, 'm'))

    const { key, id } = await makeKey('--name', 'laptop')
    expect(await status(key, '/v1/files')).toBe(200)
    const listed = await lookout('keys', 'list', '--org', organisation)
    expect(listed.stdout).toMatch(
      new RegExp(`^${id} +${organisation} +${key.slice(0, 9)}\\.\\.\\. +laptop +inference,files,watch +active`, 'm'),
    )
    expect(listed.stdout).not.toContain(key)
    const [asJson] = JSON.parse((await lookout('keys', 'list', '--org', organisation, '--json')).stdout)
    expect(asJson).toMatchObject({
      id,
      organisation,
      name: 'laptop',
      scopes: ['inference', 'files', 'watch'],
      state: 'active',
    })
    expect(JSON.stringify(asJson)).not.toContain(key)
    const organisations = JSON.parse((await lookout('orgs', 'list', '--json')).stdout)
    expect(organisations.find((one: { id: string }) => one.id === organisation)).toMatchObject({
      state: 'active',
      stored_bytes: 0,
      limits: { requests_per_minute: { models: 3 }, monthly_credits: null },
    })

    for (const expected of [200, 200, 200, 429]) expect(await status(key)).toBe(expected)
    expect((await lookout('orgs', 'limit', organisation, '--requests', 'models=none')).stdout).toMatch(
      /the server's own/,
    )
    await expect.poll(() => status(key), { interval: 500 }).toBe(200)

    expect(await lookout('keys', 'revoke', id)).toMatchObject({ code: 0 })
    await expect.poll(() => status(key), { interval: 200 }).toBe(401)
    expect(await lookout('keys', 'revoke', id)).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^lookout: Key '.+' does not exist or is already revoked/),
    })

    const brief = await makeKey('--expires', '1h')
    expect(await status(brief.key)).toBe(200)
    await expire(brief.id)
    await expect.poll(() => status(brief.key), { interval: 200 }).toBe(401)
    expect((await lookout('keys', 'list', '--org', organisation)).stdout).toMatch(
      new RegExp(`^${brief.id} .* expired `, 'm'),
    )

    const reader = await makeKey('--scopes', 'files')
    expect(await status(reader.key, '/v1/files')).toBe(200)
    const refused = await fetch(`${server.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${reader.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'service-mk1.5', messages: [{ role: 'user', content: 'Hello' }] }),
    })
    expect(refused.status).toBe(403)
    expect(await refused.json()).toEqual({
      error: {
        message: "The API key does not have the scope 'inference'",
        type: 'invalid_request_error',
        param: null,
        code: 'insufficient_scope',
      },
    })

    const other = await makeKey()
    expect(await status(other.key)).toBe(200)
    expect(await lookout('orgs', 'revoke', organisation)).toMatchObject({ code: 0 })
    await expect.poll(() => status(other.key), { interval: 200 }).toBe(401)
    const all: { state: string }[] = JSON.parse((await lookout('keys', 'list', '--org', organisation, '--json')).stdout)
    expect(new Set(all.map(({ state }) => state))).toEqual(new Set(['revoked']))
    expect(await lookout('keys', 'create', '--org', organisation)).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/revoked/),
    })
  })
})

const COMMANDS = { orgs, keys, usage } as const

test.each<[[keyof typeof COMMANDS, ...string[]], RegExp]>([
  [['orgs', 'create', 'No Name'], /is not a valid organisation name/],
  [['orgs', 'create'], /NAME is missing/],
  [['keys', 'revoke'], /ID is missing/],
  [['keys', 'list', 'mine'], /'mine' is one argument too many/],
  [['orgs', 'limit', 'nobody', '--storage', '1'], /Organisation 'nobody' does not exist/],
  [['orgs', 'create', 'a', '--requests', 'constructor=1'], /--requests: expected CLASS=N/],
  [['keys', 'create', '--org', 'nobody'], /Organisation 'nobody' does not exist/],
  [['keys', 'create', '--scopes', 'all'], /--scopes: expected some of inference, files, watch, admin, not 'all'/],
  [
    ['keys', 'create', '--expires', 'soon'],
    /--expires: expected a duration such as 90d or 12h, or a date such as 2027-01-31, not 'soon'/,
  ],
  [['keys', 'create', '--expires', '2999-02-29'], /--expires: expected a duration .* not '2999-02-29'/],
  [['keys', 'create', '--expires', '5'], /--expires: expected a duration such as 90d/],
  [['keys', 'create', '--expires', '2001-05-01'], /--expires: expected a time in the future, not '2001-05-01'/],
  [['keys', 'create', '--expires', '0d'], /--expires: expected a time in the future, not '0d'/],
  [['orgs', 'limit', 'nobody', '--storage', '-1'], /--storage: expected a number or none, not '-1'/],
  [['keys', 'fly'], /expected keys create/],
  [['usage', '--csv', '--json'], /--csv and --json: expected only one/],
  [['usage', '--rows', '--by', 'org'], /--rows and --by: expected only one/],
  [['usage', '--since', '1d', '--until', '2d'], /--until: expected a time after --since, which is 1d/],
  [['usage', '--org', 'nobody'], /Organisation 'nobody' does not exist/],
  [['keys', 'list', '--org', 'nobody'], /Organisation 'nobody' does not exist/],
  [['usage', '--by', 'toString'], /--by: expected some of org/],
])('refuses %j in one line', async ([command, ...args], message) => {
  const { code, stdout, stderr } = await outcomeHere(COMMANDS[command], args, settings())
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr).toMatch(/^lookout: [^\n]+\n$/)
  expect(stderr).toMatch(message)
})

test('a database that does not open says why in one line', async () => {
  const place = await mkdtemp(join(tmpdir(), 'lookout-commands-'))
  onTestFinished(() => rm(place, { recursive: true, force: true }))
  await mkdir(join(place, 'database'))
  await writeFile(join(place, 'database', 'pgdata'), 'a file is in the way')
  const { code, stderr } = await lookoutIn({ LOOKOUT_DATA_DIR: place, DATABASE_URL: '' }, 'keys', 'list')
  expect(code).toBe(1)
  expect(stderr).toMatch(/^lookout: The database in \S+ does not open: ENOTDIR: a file is where a folder should be\n$/)
})

test.skipIf(process.platform !== 'linux')('a data directory that cannot be made ends a command', async () => {
  const environment = { LOOKOUT_DATA_DIR: '/proc/none/lookout', DATABASE_URL: '' }
  expect(await lookoutIn(environment, 'keys', 'list')).toEqual({
    code: 1,
    stdout: '',
    stderr: expect.stringMatching(
      /^lookout: The database in \S+ does not open: ENOENT: [^\n]+, mkdir '\/proc\/none'\n$/,
    ),
  })
})

/** Another user, who reads this repository and temporary files; only root can become one. */
const OTHER = { uid: 65_534, gid: 65_534 }
const isRoot = process.getuid?.() === 0
const reach = ['-r', resolve('package.json'), '-a', '-x', process.execPath, '-a', '-x', tmpdir()]
const canBeOther = isRoot && spawnSync('test', reach, OTHER).status === 0

test.skipIf(!canBeOther)('commands of root leave the database to the user whose folder it is in', async () => {
  const place = await mkdtemp(join(tmpdir(), 'lookout-commands-'))
  onTestFinished(() => rm(place, { recursive: true, force: true, maxRetries: 5 }))
  // Anyone may read this folder of root's, but not the empty database that root keeps in it.
  const cache = await mkdtemp(join(tmpdir(), 'lookout-commands-'))
  onTestFinished(() => rm(cache, { recursive: true, force: true, maxRetries: 5 }))
  await chmod(cache, 0o755)
  const environment = { LOOKOUT_CACHE_DIR: cache, DATABASE_URL: '' }
  const own = await lookoutIn({ ...environment, LOOKOUT_DATA_DIR: join(cache, 'data') }, 'orgs', 'list')
  expect(own).toMatchObject({ code: 0, stderr: '' })
  // Others could plant in it what the next database of root begins with.
  expect((await lstat(join(cache, 'empty-database-1'))).mode & 0o077).toBe(0)
  await chown(place, OTHER.uid, OTHER.gid)
  const made = await lookoutIn({ ...environment, LOOKOUT_DATA_DIR: place }, 'orgs', 'create', 'acme')
  expect(made).toMatchObject({ code: 0, stderr: '' })
  const files = await readdir(place, { recursive: true })
  expect(files).toContain(join('database', 'pgdata'))
  const owners = await Promise.all(files.map(async (file) => (await lstat(join(place, file)).catch(() => OTHER)).uid))
  expect(new Set(owners)).toEqual(new Set([OTHER.uid]))
})

test.skipIf(!isRoot)("root opens a database in another user's folder that this user could not open", async () => {
  // Only root has a way through the parent.
  const parent = await mkdtemp(join(tmpdir(), 'lookout-commands-'))
  onTestFinished(() => rm(parent, { recursive: true, force: true, maxRetries: 5 }))
  const place = join(parent, 'data')
  await mkdir(place)
  await chown(place, OTHER.uid, OTHER.gid)
  const environment = { LOOKOUT_DATA_DIR: place, DATABASE_URL: '' }
  expect(await lookoutIn(environment, 'orgs', 'create', 'acme')).toMatchObject({ code: 0, stderr: '' })
  // The files in it are root's, as earlier versions left them.
  await chmod(parent, 0o755)
  await chown(join(place, 'database'), OTHER.uid, OTHER.gid)
  expect(await lookoutIn(environment, 'orgs', 'list')).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('acme'),
    stderr: '',
  })
})

test.skipIf(!isRoot)('a socket that another user offers among temporary files is not the database', async () => {
  const place = await mkdtemp(join(tmpdir(), 'lookout-commands-'))
  const data = join(place, 'long'.repeat(25))
  const folder = dirname(socketPath(join(data, 'database')))
  onTestFinished(async () => {
    for (const each of [place, folder]) await rm(each, { recursive: true, force: true })
  })
  await mkdir(folder)
  await chown(folder, OTHER.uid, OTHER.gid)
  const environment = { LOOKOUT_DATA_DIR: data, DATABASE_URL: '', TMPDIR: tmpdir() }
  expect(await lookoutIn(environment, 'orgs', 'list')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining(`${folder}, the folder of its socket, belongs to another user`),
  })
})

test('a port that fetch does not call is served with a warning, and `health` finds it', async () => {
  let started: TestServer | null = null
  // Another program may have one of them.
  for (const port of [10_080, 6697, 6679, 6669, 6668, 6667, 6666, 6665]) {
    started ??= await startTestServer({ environment: { LOOKOUT_PORT: String(port) } }).catch((error: Error) => {
      if (!error.message.includes('in use')) throw error
      return null
    })
  }
  onTestFinished(() => started!.close())
  const { port } = new URL(started!.url)
  expect(started!.logs.join('')).toContain(`refuse to call port ${port}; set LOOKOUT_PORT to another one`)
  expect(await lookoutIn({ LOOKOUT_PORT: port }, 'health')).toEqual({
    code: 0,
    stdout: `${started!.url}/readyz is ready\n`,
    stderr: '',
  })
  expect(await lookoutIn({ LOOKOUT_PORT: String(await freePort()) }, 'health')).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^lookout: no answer from \S+\/readyz: [^\n]*ECONNREFUSED/),
  })
})

test('a first key that is only shown is not made where the server cannot listen', async () => {
  const taken = createServer()
  onTestFinished(() => new Promise((resolve) => void taken.close(() => resolve())))
  const place = await mkdtemp(join(tmpdir(), 'lookout-commands-'))
  onTestFinished(() => rm(place, { recursive: true, force: true, maxRetries: 5 }))
  const port = await freePort()
  const environment = { LOOKOUT_API_KEY: '', DATABASE_URL: '', LOOKOUT_DATA_DIR: place }
  const start = startTestServer({
    environment: { ...environment, LOOKOUT_PORT: String(port) },
    // The port was free when the server began to start.
    startEngine: async () => {
      taken.listen(port, '127.0.0.1')
      await once(taken, 'listening')
      return new FakeEngine()
    },
  })
  await expect(start).rejects.toThrow(`port ${port} is in use; set LOOKOUT_PORT to another one`)
  const started = await startTestServer({ environment })
  onTestFinished(() => started.close())
  expect(started.service.apiKey).not.toBeNull()
})

test('the first key is kept before the server answers', async () => {
  const port = await freePort()
  const answers: boolean[] = []
  const started = await startTestServer({
    environment: { LOOKOUT_API_KEY: '', DATABASE_URL: '', LOOKOUT_PORT: String(port) },
    keepFirstKey: async () => {
      answers.push(
        await fetch(`http://127.0.0.1:${port}/healthz`).then(
          () => true,
          () => false,
        ),
      )
    },
  })
  onTestFinished(() => started.close())
  expect(answers).toEqual([false])
})

test('a metrics port that is taken is said before a model is loaded', async () => {
  const taken = createServer().listen(0, '127.0.0.1')
  await once(taken, 'listening')
  const { port } = taken.address() as AddressInfo
  let loads = 0
  const starting = startTestServer({
    environment: { LOOKOUT_METRICS_PORT: String(port) },
    startEngine: async () => {
      loads++
      return new FakeEngine()
    },
  })
  await expect(starting).rejects.toThrow(`LOOKOUT_METRICS_PORT: metrics cannot be served at 127.0.0.1:${port}`)
  expect(loads).toBe(0)
  taken.close()
})
