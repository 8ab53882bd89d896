import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { newApiKey } from '../src/accounts/api-key.ts'
import { TestAccounts } from './support/accounts.ts'
import { CutProxy } from './support/cut-proxy.ts'
import { KEY, startTestServer, type TestServer } from './support/server.ts'
import { through } from './support/services.ts'

/** Unknown keys that an address may try at once when it may be a proxy's. */
const BURST = 200

/** The only connection of the server to its database: while it is cut, every lookup fails with 503. */
let proxy: CutProxy
let server: TestServer
let accounts: TestAccounts
let now = 0

beforeAll(async () => {
  proxy = await CutProxy.toDatabase(inject('databaseUrl'))
  const environment = { DATABASE_URL: through(inject('databaseUrl'), proxy.port) }
  server = await startTestServer({ environment, clock: () => now })
  accounts = await TestAccounts.open()
})
afterAll(async () => {
  await proxy?.mend().catch(() => {})
  await server?.close()
  await accounts?.close()
  await proxy?.cut()
})

const request = (key: string) => fetch(`${server.url}/v1/models`, { headers: { authorization: `Bearer ${key}` } })

async function statuses(keys: readonly string[]): Promise<number[]> {
  const answers = await Promise.all(keys.map(request))
  await Promise.all(answers.map((answer) => answer.arrayBuffer()))
  return answers.map(({ status }) => status)
}

test('any number of valid keys is accepted from one address at once', async () => {
  const { organisation } = await accounts.organisation()
  const keys: string[] = []
  while (keys.length < BURST + 20) keys.push((await accounts.accounts.createKey({ organisation })).key)
  expect(new Set(await statuses(keys))).toEqual(new Set([200]))
})

test('an address that tries too many unknown keys is rejected without a database query', async () => {
  const { key } = await accounts.organisation()
  expect((await request(key)).status).toBe(200)
  const unknown = Array.from({ length: BURST }, newApiKey)
  expect(new Set(await statuses(unknown))).toEqual(new Set([401]))

  await proxy.cut()
  const refused = await request(newApiKey())
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
  // A malformed key and one that was looked up before need no query. A valid key still works.
  expect(await statuses(['nope', 'lk-short', unknown[0]!, key])).toEqual([401, 401, 401, 200])
  // The key of the configuration is in no database. Here its organisation's limits have never been read.
  expect(await statuses([KEY])).toEqual([200])
  expect(await statuses([newApiKey()])).toEqual([429])

  // The budget refills with time.
  now += 1_000
  expect(await statuses([newApiKey()])).toEqual([503])
  await proxy.mend()
  await expect.poll(() => statuses([newApiKey()])).toEqual([401])
})
