import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFile, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'

const KEY = 'launcher-test'
/** What `npx lookout` runs. */
const LAUNCHER = 'bin/lookout.cjs'
/** An older Node, as far as a program that asks for its version can tell. */
const OLD_NODE = `data:text/javascript,${encodeURIComponent(
  `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.1.0' } })`,
)}`

let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'lookout-launcher-'))
})
afterAll(async () => {
  for (const child of started) child.kill('SIGKILL')
  await rm(directory, { recursive: true })
})
const started: ChildProcess[] = []

function launch(
  args: readonly string[],
  launcher = LAUNCHER,
  stdio: StdioOptions = ['ignore', 'pipe', 'pipe'],
  node = ['--import', OLD_NODE],
  environment: Readonly<Record<string, string>> = {},
): ChildProcess {
  const child = spawn(process.execPath, [...node, launcher, ...args], {
    env: {
      ...process.env,
      LOOKOUT_DATA_DIR: directory,
      LOOKOUT_LOG_LEVEL: 'error',
      LOOKOUT_PORT: '0',
      LOOKOUT_API_KEY: KEY,
      LOOKOUT_DRAIN_SECONDS: '600',
      // One of its own would take longer than the rest of the start. Other servers use this one as well.
      DATABASE_URL: inject('databaseUrl'),
      LOOKOUT_BATCH_LINES: '0',
      LOOKOUT_WATCHES: '0',
      ...environment,
    },
    stdio,
    // A process group of its own.
    detached: true,
  })
  started.push(child)
  return child
}

async function outcome(child: ChildProcess) {
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout!), text(child.stderr!), once(child, 'exit')])
  return { code, stdout, stderr }
}

test('without a Node that is new enough, says in one line what to install', async () => {
  const launcher = join(directory, LAUNCHER)
  await mkdir(join(directory, 'bin'))
  await copyFile(LAUNCHER, launcher)
  expect(await outcome(launch(['--version'], launcher))).toEqual({
    code: 1,
    stdout: '',
    stderr: expect.stringMatching(/^lookout: Lookout needs Node 24 or newer, and this is 20\.1\.0; install it .*\.\n$/),
  })
})

test('a parent with a channel may send messages and let go', async () => {
  const launched = launch(['serve'], LAUNCHER, ['ignore', 'pipe', 'pipe', 'ipc'], [])
  const port = await portOf(launched)
  const rest = text(launched.stdout!)
  await new Promise((resolve) => launched.send('hello', resolve))
  launched.disconnect()
  // Each is answered after what came before it.
  for (let i = 0; i < 5; i++) expect((await fetch(`http://127.0.0.1:${port}/healthz`)).status).toBe(200)
  launched.kill('SIGTERM')
  expect(await once(launched, 'exit')).toEqual([0, null])
  expect(await rest).toMatch(/^SIGTERM: /)
})

// On Linux, npm installs a Node; elsewhere there is none to go on with.
describe.runIf(process.platform === 'linux')('an old Node hands over to the one that npm installed', () => {
  test('with its arguments, output and exit code', async () => {
    expect(await outcome(launch(['--version']))).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/),
    })
    expect(await outcome(launch(['fly']))).toMatchObject({
      code: 1,
      stderr: "lookout: unknown command 'fly'; see --help\n",
    })
  })

  test.each([
    ['a SIGTERM to it alone', (pid: number) => process.kill(pid, 'SIGTERM'), {}],
    // With an embedded database.
    [
      'a SIGTERM to all processes, as systemd sends it',
      (pid: number) => process.kill(-pid, 'SIGTERM'),
      { DATABASE_URL: '' },
    ],
    ['a SIGHUP to it alone', (pid: number) => process.kill(pid, 'SIGHUP'), {}],
    [
      'a SIGHUP to all processes, as a terminal that closes sends it',
      (pid: number) => process.kill(-pid, 'SIGHUP'),
      {},
    ],
    ['a SIGINT to it alone', (pid: number) => process.kill(pid, 'SIGINT'), {}],
    ['a SIGINT to all processes, as a terminal sends it', (pid: number) => process.kill(-pid, 'SIGINT'), {}],
  ])('and the server ends in order after %s', async (what, kill, environment) => {
    const { launched } = await serve(environment)
    const rest = text(launched.stdout!)
    kill(launched.pid!)
    expect(await once(launched, 'exit')).toEqual([0, null])
    // SIGHUP is not passed on as SIGTERM, of which a second one does not wait.
    expect(what).toContain(/^SIG\w+(?=: no new requests)/.exec(await rest)![0])
  })

  test.each(['SIGTERM', 'SIGINT'] as const)('and the server ends at once after a second %s', async (signal) => {
    const { launched, port } = await serve()
    const upload = connect(port, '127.0.0.1').on('error', () => {})
    upload.write(
      `POST /v1/files HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${KEY}\r\nContent-Length: 9999\r\n` +
        'Content-Type: multipart/form-data; boundary=b\r\nExpect: 100-continue\r\n\r\n',
    )
    await once(upload, 'data')
    const exit = once(launched, 'exit')
    // Two that come together may be one.
    const signals = setInterval(() => launched.kill(signal), 300)
    expect(await exit).toEqual([1, null])
    clearInterval(signals)
  })

  test('and no server is left after a SIGKILL', async () => {
    const { launched, port } = await serve()
    launched.kill('SIGKILL')
    const ask = () => fetch(`http://127.0.0.1:${port}/healthz`, { headers: { connection: 'close' } })
    await expect
      .poll(() =>
        ask().then(
          () => 'open',
          ({ cause }: { cause: NodeJS.ErrnoException }) => cause.code,
        ),
      )
      .toBe('ECONNREFUSED')
  })
})

/** Starts a server on an old Node, and waits until it listens. */
async function serve(environment: Readonly<Record<string, string>> = {}) {
  const launched = launch(['serve'], undefined, undefined, undefined, environment)
  return { launched, port: await portOf(launched) }
}

async function portOf(launched: ChildProcess): Promise<number> {
  let printed = ''
  for await (const data of launched.stdout!.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
    printed += data
    if (/JSON\n\n$/.test(printed)) break
  }
  return Number(/127\.0\.0\.1:(\d+)/.exec(printed)![1])
}
