import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFile, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'

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

function launch(args: readonly string[], launcher = LAUNCHER): ChildProcess {
  const child = spawn(process.execPath, ['--import', OLD_NODE, launcher, ...args], {
    env: { ...process.env, LOOKOUT_DATA_DIR: directory, LOOKOUT_LOG_LEVEL: 'error', LOOKOUT_PORT: '0' },
    stdio: ['ignore', 'pipe', 'pipe'],
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
    ['it alone', (pid: number) => process.kill(pid, 'SIGTERM')],
    ['all processes, as systemd does', (pid: number) => process.kill(-pid, 'SIGTERM')],
  ])('and the server ends in order after a SIGTERM to %s', async (_whom, kill) => {
    const launched = launch(['serve'])
    let printed = ''
    for await (const data of launched.stdout!.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
      printed += data
      if (/JSON\n\n$/.test(printed)) break
    }
    kill(launched.pid!)
    expect(await once(launched, 'exit')).toEqual([0, null])
  })
})
