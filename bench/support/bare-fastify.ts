/** A Fastify route that answers at once with a list of models: the cost of a request without Lookout. */
import type { AddressInfo } from 'node:net'
import Fastify from 'fastify'

const models = ['service-mk1.5', 'service-mk1'].map((id) => ({
  id,
  object: 'model',
  created: 1790035200,
  owned_by: 'lookout',
}))

const app = Fastify()
app.get('/v1/models', async () => ({ object: 'list', data: models }))
await app.listen({ host: '127.0.0.1', port: 0 })
process.stdout.write(`listens on http://127.0.0.1:${(app.server.address() as AddressInfo).port}\n`)
process.on('SIGTERM', () => process.exit(0))
