import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'

let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'lookout-main-'))
})
afterAll(() => rm(directory, { recursive: true }))

describe('the command line', () => {
  test.each([
    [['--version'], {}, 0, /^\d+\.\d+\.\d+\n$/, ''],
    [['--help'], {}, 0, /LOOKOUT_PORT/, ''],
    [['toString'], {}, 1, /^$/, "lookout: unknown command 'toString'; see --help\n"],
    [['serve', '--fast'], {}, 1, /^$/, "lookout: Unknown option '--fast'; see --help\n"],
    [['fly'], {}, 1, /^$/, "lookout: unknown command 'fly'; see --help\n"],
    [['serve'], { LOOKOUT_PORT: 'x' }, 1, /^$/, 'lookout: LOOKOUT_PORT: expected a port number\n'],
  ])('%s %o', async (args, environment, code, stdout, stderr) => {
    const run = await outcome(start(args, environment))
    expect(run).toEqual({ code, stdout: expect.stringMatching(stdout), stderr })
  })

  test('every command has its own help', async () => {
    for (const command of ['serve', 'models']) {
      const run = await outcome(start([command, '--help'], {}))
      expect(run).toMatchObject({ code: 0, stdout: expect.stringMatching(`^Usage: lookout ${command}\n`), stderr: '' })
    }
  })

  test('models: what the cards need, without loading them', async () => {
    const run = await outcome(start(['models'], {}))
    expect(run).toMatchObject({ code: 0, stderr: '' })
    expect(run.stdout).toMatch(/^service-mk1\.5, service-mk1\n.*lookout-nano.card\.json\n.*with the service\n/)
    expect(run.stdout).toMatch(/context: 32768 tokens\n {2}memory: {2}about 0\.\d\d GiB\n$/)
  })

  test('a card that is not there is named in one line', async () => {
    const run = await outcome(start(['serve'], { LOOKOUT_MODEL_CARD: '/none/card.json' }))
    expect(run).toMatchObject({ code: 1, stderr: expect.stringMatching(/^lookout: [^\n]*\/none\/card\.json[^\n]*\n$/) })
  })
})

test('serves until it is told to stop', async () => {
  const server = start(['serve'], { LOOKOUT_PORT: '0' })
  const greeting = await untilPrinted(server, /JSON\n\n$/)
  const url = /^Lookout listens on (\S+)$/m.exec(greeting)![1]!
  const key = /^API key: (lk-\w+)$/m.exec(greeting)![1]!
  const models = await fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${key}` } })
  expect(models.status).toBe(200)

  const second = await outcome(start(['serve'], { LOOKOUT_PORT: new URL(url).port }))
  expect(second.code).toBe(1)
  expect(second.stderr).toMatch(/^lookout: port \d+ is in use; /m)

  server.kill('SIGTERM')
  expect(await once(server, 'exit')).toEqual([0, null])
})

function start(args: readonly string[], environment: Record<string, string>): ChildProcess {
  return spawn(process.execPath, ['src/main.ts', ...args], {
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      LOOKOUT_DATA_DIR: directory,
      LOOKOUT_LOG_LEVEL: 'error',
      ...environment,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
}

async function outcome(child: ChildProcess): Promise<{ code: number; stdout: string; stderr: string }> {
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout!), text(child.stderr!), once(child, 'exit')])
  return { code, stdout, stderr }
}

async function untilPrinted(child: ChildProcess, pattern: RegExp): Promise<string> {
  let printed = ''
  for await (const data of child.stdout!.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
    printed += data
    if (pattern.test(printed)) break
  }
  return printed
}
