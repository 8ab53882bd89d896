import { execFile } from 'node:child_process'
import { request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import fastify from 'fastify'
import { expect, test } from 'vitest'
import { CHANNEL, endlessSchema } from '../../../../test/fixtures/endless-schema.ts'
import { ALL_SCOPES, type Principal } from '../../../accounts/principal.ts'
import { callOf } from '../client-call.ts'
import { ClientDisconnected } from '../connection/abort-signal.ts'
import { bodyFormat } from './body-format.ts'
import { BodyReader } from './body-reader.ts'
import { ByteBudget } from './byte-budget.ts'

const MODULE = new URL('../../../../test/fixtures/endless-schema.ts', import.meta.url).href

const PRINCIPAL: Principal = { organisation: 'a', key: 'k', scopes: ALL_SCOPES, limits: {} as Principal['limits'] }

test('a body that is being parsed when the server closes counts as a disconnected client, not an internal error', async () => {
  const bodies = new BodyReader(new ByteBudget(2 ** 24))
  const format = bodyFormat(MODULE, 'endlessSchema', endlessSchema)
  const outcome = Promise.withResolvers<unknown>()
  const app = fastify()
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _payload, done) => done(null))
  app.decorateRequest('principal', null)
  app.addHook('onRequest', (request, _reply, done) => {
    request.principal = PRINCIPAL
    done()
  })
  app.post('/', (request, reply) => bodies.read(callOf(request, reply), format).then(outcome.resolve, outcome.resolve))
  await app.listen({ host: '127.0.0.1', port: 0 })
  const channel = new BroadcastChannel(CHANNEL)
  try {
    const begun = new Promise((resolve) => {
      channel.onmessage = resolve
    })
    const { port } = app.server.address() as AddressInfo
    const client = request({ port, method: 'POST', headers: { 'content-type': 'application/json' } })
    client.on('error', () => {})
    client.end(JSON.stringify({ text: 'a'.repeat(2 ** 18) }))
    await begun
    client.destroy()
    await app.close()
    await bodies.close()
    expect(await outcome.promise).toBeInstanceOf(ClientDisconnected)
  } finally {
    channel.close()
    await app.close()
    await bodies.close()
  }
})

test('the worst bodies need little memory', async () => {
  const program = fileURLToPath(new URL('../../../../test/fixtures/hostile-bodies.ts', import.meta.url))
  // The thread's memory is limited below its default, so a body that needed more would end the process here.
  const { stdout } = await promisify(execFile)(process.execPath, ['--max-old-space-size=256', program])
  expect(stdout.trim().split('\n')).toHaveLength(12)
})
