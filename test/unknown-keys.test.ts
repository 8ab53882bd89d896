import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { newApiKey } from '../src/accounts/index.ts'
import { TestAccounts } from './support/accounts.ts'
import { CutProxy } from './support/cut-proxy.ts'
import { startTestServer, type TestServer } from './support/server.ts'
import { through } from './support/services.ts'

/** What an address that may be a proxy's is granted. */
const BURST = 200

/** The only way to its database: a question that is asked while this is cut is answered 503. */
let way: CutProxy
let server: TestServer
let accounts: TestAccounts
let now = 0

beforeAll(async () => {
  way = await CutProxy.toDatabase(inject('databaseUrl'))
  const environment = { DATABASE_URL: through(inject('databaseUrl'), way.port) }
  server = await startTestServer({ environment, clock: () => now })
  accounts = await TestAccounts.open()
})
afterAll(async () => {
  await way?.mend().catch(() => {})
  await server?.close()
  await accounts?.close()
  await way?.cut()
})

const ask = (key: string) => fetch(`${server.url}/v1/models`, { headers: { authorization: `Bearer ${key}` } })

async function statuses(keys: readonly string[]): Promise<number[]> {
  const answers = await Promise.all(keys.map(ask))
  await Promise.all(answers.map((answer) => answer.arrayBuffer()))
  return answers.map(({ status }) => status)
}

test('more keys than an address may get wrong are let in at once, if they are right', async () => {
  const { organisation } = await accounts.organisation()
  const made: string[] = []
  while (made.length < BURST + 20) made.push((await accounts.accounts.createKey({ organisation })).key)
  const answered = await statuses(made)
  expect(new Set(answered)).toEqual(new Set([200]))
})

test('an address that shows unknown keys again and again is refused without a question to the database', async () => {
  const { key } = await accounts.organisation()
  expect((await ask(key)).status).toBe(200)
  const unknown = Array.from({ length: BURST }, newApiKey)
  expect(new Set(await statuses(unknown))).toEqual(new Set([401]))

  await way.cut()
  const refused = await ask(newApiKey())
  expect(refused.status).toBe(429)
  expect(refused.headers.get('retry-after')).toBe('1')
  expect(await refused.json()).toEqual({
    error: {
      message: 'Too many unknown API keys from this address. Try again in 1 second.',
      type: 'rate_limit_error',
      param: null,
      code: 'rate_limit_exceeded',
    },
  })
  // A key that is no key, and one that was asked about before, cost no question; a good one goes on.
  expect(await statuses(['nope', 'lk-short', unknown[0]!, key])).toEqual([401, 401, 401, 200])
  expect(await statuses([newApiKey()])).toEqual([429])

  // With time, more may be asked.
  now += 1_000
  expect(await statuses([newApiKey()])).toEqual([503])
  await way.mend()
  await expect.poll(() => statuses([newApiKey()])).toEqual([401])
})
