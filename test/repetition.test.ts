import { expect, test } from 'vitest'
import { LocalEngine } from '../src/inference/local/host/local-engine.ts'
import { loadLocalCard } from '../src/models/card.ts'
import { CARD } from './support/local-engine.ts'
import { jsonOf, startTestServer, type TestServer } from './support/server.ts'
import { localOnly, startShippedServer } from './support/shipped-model.ts'

/** Far more than the card allows of the same. */
const MOST = 2800

interface Answer {
  readonly choices: readonly { readonly finish_reason: string; readonly message: { readonly content: string } }[]
  readonly usage: { readonly completion_tokens: number }
}

/** Answers a chat whose regex allows nothing but repetition, whatever the weights. Closes the server. */
async function answer(server: TestServer, fields: object = {}): Promise<Answer> {
  try {
    const response = await server.post('/v1/chat/completions', {
      model: 'service-mk1.5',
      messages: [{ role: 'user', content: 'Count.' }],
      max_completion_tokens: MOST,
      regex: '1{9000}',
      ...fields,
    })
    expect(response.status).toBe(200)
    return await jsonOf<Answer>(response)
  } finally {
    await server.close()
  }
}

test('a reply that repeats itself ends with `length`', async (context) => {
  localOnly(context, 'Replies that go round in circles are not ended early.')
  const { engine } = await loadLocalCard(CARD)
  const { choices, usage } = await answer(await startShippedServer({ seed: 1 }))
  expect(choices[0]!.finish_reason).toBe('length')
  expect(choices[0]!.message.content).toMatch(/^1+$/)
  expect(usage.completion_tokens).toBeGreaterThanOrEqual(engine.repetition!.tokens)
  expect(usage.completion_tokens).toBeLessThan(MOST)
})

test('the card can turn that off', async (context) => {
  localOnly(context, 'Replies that go round in circles are not ended early.')
  const card = await loadLocalCard(CARD)
  const startEngine = () => LocalEngine.start({ ...card, engine: { ...card.engine, repetition: null } }, { seed: 1 })
  expect((await answer(await startTestServer({ startEngine }))).usage.completion_tokens).toBe(MOST)
})

test('a negative presence_penalty allows repetition', async () => {
  const { usage } = await answer(await startShippedServer({ seed: 1 }), { presence_penalty: -2 })
  expect(usage.completion_tokens).toBe(MOST)
})
