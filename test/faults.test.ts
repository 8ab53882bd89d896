import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { bareEnvironment } from './support/command-line.ts'

test('an unhandled error is logged and counted, and the server serves on', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'lookout-faults-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true }))
  const server = spawn(process.execPath, ['--import', './test/fixtures/faults.mjs', 'src/main.ts', 'serve'], {
    env: {
      ...bareEnvironment(),
      LOOKOUT_PORT: '0',
      LOOKOUT_METRICS_PORT: '0',
      LOOKOUT_API_KEY: 'lk-faults',
      LOOKOUT_DATA_DIR: directory,
      LOOKOUT_LOG_LEVEL: 'error',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  onTestFinished(() => void server.kill('SIGKILL'))
  let printed = ''
  let logged = ''
  server.stdout.on('data', (piece: Buffer) => {
    printed += piece
  })
  server.stderr.on('data', (piece: Buffer) => {
    logged += piece
  })
  await expect.poll(() => printed).toMatch(/JSON\n\n$/)
  const url = /listens on (\S+)/.exec(printed)![1]!
  const metrics = /Metrics: (\S+)/.exec(printed)![1]!
  const counted = async () => {
    const text = await (await fetch(metrics)).text()
    return ['unhandled_rejections', 'uncaught_exceptions'].map((name) =>
      Number(new RegExp(`^lookout_${name}_total (\\d+)$`, 'm').exec(text)?.[1]),
    )
  }
  expect(await counted()).toEqual([0, 0])

  server.kill('SIGWINCH')
  await expect.poll(counted).toEqual([1, 0])
  server.kill('SIGWINCH')
  await expect.poll(counted).toEqual([1, 1])

  // The log comes by a pipe of its own: the metrics may show a fault before its line has arrived.
  const faults = () =>
    logged
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line))
  await expect.poll(faults).toHaveLength(2)
  expect(faults()).toMatchObject([
    {
      msg: 'Unhandled rejection',
      err: { message: 'A rejection without a handler', stack: expect.stringMatching(/faults\.mjs/) },
    },
    {
      msg: 'Uncaught exception',
      err: { message: 'An error event without a listener', stack: expect.stringMatching(/faults\.mjs/) },
    },
  ])
  const models = await fetch(`${url}/v1/models`, { headers: { authorization: 'Bearer lk-faults' } })
  expect(models.status).toBe(200)
  server.kill('SIGTERM')
  expect(await once(server, 'exit')).toEqual([0, null])
})
