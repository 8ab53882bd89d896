import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { errorBody } from '../src/api/http/wire/error.ts'
import { cacheDirectory } from '../src/setup/native-library.mjs'
import { bareEnvironment } from './support/command-line.ts'
import { damaged, FUZZ, inflated } from './support/fuzz.ts'
import { CHATS, DETECTS, MULTILOOKS } from './support/fuzz-bodies.ts'
import { shippedCard } from './support/shipped-model.ts'

/** Clients that send at the same time. Releases are tested with `FUZZ_RUNS=20000`. */
const CLIENTS = 4
const KEY = 'fuzz'
/** One body in this many has a value that is as deep or as long as a body allows. */
const INFLATED = 25
/** The only permitted 500: the model's text lacks the requested structure, for example because it was cut. */
const VALIDATION = 'output_validation_failed'
const BOUNDARY = 'boundary'

let directory: string
let server: ChildProcess
let url: string
let metricsUrl: string
let log = ''
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'lookout-fuzz-'))
  server = spawn(process.execPath, ['src/main.ts', 'serve'], {
    env: {
      ...bareEnvironment(),
      LOOKOUT_PORT: '0',
      LOOKOUT_METRICS_PORT: '0',
      LOOKOUT_MODEL_CARD: shippedCard(),
      LOOKOUT_API_KEY: KEY,
      LOOKOUT_DATA_DIR: directory,
      LOOKOUT_CACHE_DIR: cacheDirectory(),
      LOOKOUT_RATE_LIMITS: 'off',
      LOOKOUT_LOG_LEVEL: 'error',
    },
  })
  server.stderr!.on('data', (piece) => {
    log += piece
  })
  let printed = ''
  for await (const piece of server.stdout!.iterator({ destroyOnReturn: false })) {
    printed += piece
    url = /listens on (\S+)/.exec(printed)?.[1] ?? ''
    metricsUrl = /Metrics: (\S+)/.exec(printed)?.[1] ?? ''
    if (url && metricsUrl) break
  }
  server.stdout!.resume()
})
afterAll(async () => {
  if (server?.exitCode === null) {
    server.kill('SIGTERM')
    await once(server, 'exit')
  }
  if (directory) await rm(directory, { recursive: true, force: true, maxRetries: 5 })
})

interface Shot {
  readonly path: string
  readonly body: string
}

const CHAT = '/v1/chat/completions'
const endpoints = [
  ...([CHAT, `${CHAT}/multilook`, '/v1/detect'] as const).map((path, index) => {
    const bodies: readonly object[] = [CHATS, MULTILOOKS, DETECTS][index]!
    const brief = bodies.map(forShippedModel)
    const text = fc.oneof(
      { weight: INFLATED - 1, arbitrary: damaged(brief) },
      { weight: 1, arbitrary: inflated(brief) },
    )
    return { weight: 3, arbitrary: text.map((body): Shot => ({ path, body })) }
  }),
  { weight: 1, arbitrary: damagedForm().map((body): Shot => ({ path: '/v1/files', body })) },
]

test(`${FUZZ.numRuns} damaged bodies at every endpoint, a real model behind them: nothing dies`, {
  timeout: 120_000 + 400 * FUZZ.numRuns,
}, async () => {
  const statuses = new Map<number, number>()
  let longestMs = 0
  const fire = async ({ path, body }: Shot) => {
    const type = path === '/v1/files' ? `multipart/form-data; boundary=${BOUNDARY}` : 'application/json'
    const headers = { authorization: `Bearer ${KEY}`, 'content-type': type }
    const response = await fetch(url + path, { method: 'POST', headers, body })
    const text = await response.text()
    statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1)
    if (response.ok) return
    const { error } = errorBody.parse(JSON.parse(text))
    if (error.code !== VALIDATION)
      expect([response.status < 500, path, text.slice(0, 500)]).toEqual([true, path, text.slice(0, 500)])
  }
  let ended = false
  const watching = (async () => {
    while (!ended) {
      longestMs = Math.max(longestMs, 1000 * (await metric('lookout_event_loop_delay_seconds')))
      await new Promise((resolve) => setTimeout(resolve, 200))
    }
  })()
  const runs = Math.ceil(FUZZ.numRuns / CLIENTS)
  const client = (index: number) =>
    fc.assert(fc.asyncProperty(fc.oneof(...endpoints), fire), {
      numRuns: runs,
      seed: FUZZ.seed + index,
      endOnFailure: true,
    })
  await Promise.all(Array.from({ length: CLIENTS }, (_, index) => client(index)))
  ended = true
  await watching
  const engineDeaths = await metric('lookout_engine_restarts_total')
  const counted = [...statuses].sort(([a], [b]) => a - b).map(([status, count]) => `${count} x ${status}`)
  console.info(
    `${runs * CLIENTS} bodies: ${counted.join(', ')}; process deaths ${server.exitCode === null ? 0 : 1}, engine deaths ${engineDeaths}, event loop held for at most ${longestMs.toFixed(0)} ms`,
  )
  expect([server.exitCode, engineDeaths, log]).toEqual([null, 0, ''])
  expect(statuses.get(200)).toBeGreaterThan(0)
  expect(statuses.get(400)).toBeGreaterThan(0)
})

async function metric(name: string): Promise<number> {
  const text = await (await fetch(metricsUrl)).text()
  return Number(new RegExp(`^${name}(?:\\{.*\\})? (\\S+)$`, 'm').exec(text)?.[1])
}

/** Limits the tokens and removes requests for reasoning. */
function forShippedModel(body: object): object {
  const text = JSON.stringify(body, (key, value) =>
    key === 'reasoning_effort' || key === 'enable_thinking' ? undefined : value,
  )
  const plain = JSON.parse(text.replace(' THINK', '')) as object
  return 'media' in body ? plain : { ...plain, max_completion_tokens: 8 }
}

/** A form with a file and its purpose, damaged at random places. */
function damagedForm(): fc.Arbitrary<string> {
  const part = (name: string, more: string, value: string) =>
    `--${BOUNDARY}\r\ncontent-disposition: form-data; name="${name}"${more}\r\n\r\n${value}\r\n`
  const right = `${part('purpose', '', 'vision')}${part('file', '; filename="a.png"', 'not an image')}--${BOUNDARY}--\r\n`
  const junk = fc.oneof(fc.string(), fc.constantFrom('\r\n', `--${BOUNDARY}`, '--', '"', '\u0000'))
  return fc
    .array(fc.tuple(fc.nat(right.length), fc.nat(40), junk, fc.constantFrom(1, 1, 1, 1000)), { maxLength: 3 })
    .map((changes) =>
      changes.reduce(
        (text, [at, cut, put, times]) => text.slice(0, at) + put.repeat(times) + text.slice(at + cut),
        right,
      ),
    )
}
