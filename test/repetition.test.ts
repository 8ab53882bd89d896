import { expect, test } from 'vitest'
import { startEngine } from '../src/inference/engines/engines.ts'
import { loadCard, type ModelCard } from '../src/models/card.ts'
import { jsonOf, startTestServer, type TestServer } from './support/server.ts'
import { shippedCard, startShippedServer } from './support/shipped-model.ts'

/** Far more than the card allows of the same. */
const MOST = 2800

interface Answer {
  readonly choices: readonly { readonly finish_reason: string; readonly message: { readonly content: string } }[]
  readonly usage: { readonly completion_tokens: number }
}

/** Answers a chat whose regex allows only repetition, with any weights. Closes the server. */
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

test('a reply that repeats itself ends with `length`', async () => {
  const engine = limited(await loadCard(shippedCard()))
  const { choices, usage } = await answer(await startShippedServer({ seed: 1 }))
  expect(choices[0]!.finish_reason).toBe('length')
  expect(choices[0]!.message.content).toMatch(/^1+$/)
  expect(usage.completion_tokens).toBeGreaterThanOrEqual(engine.repetition!.tokens)
  expect(usage.completion_tokens).toBeLessThan(MOST)
})

test('the card can turn that off', async () => {
  const environment = { LOOKOUT_MODEL_CARD: shippedCard() }
  const endless = (card: ModelCard) =>
    startEngine({ ...card, engine: { ...limited(card), repetition: null } }, { seed: 1 })
  const server = await startTestServer({ startEngine: endless, environment })
  expect((await answer(server)).usage.completion_tokens).toBe(MOST)
})

test('a negative presence_penalty allows repetition', async () => {
  const { usage } = await answer(await startShippedServer({ seed: 1 }), { presence_penalty: -2 })
  expect(usage.completion_tokens).toBe(MOST)
})

/** The engine of a card that has limits for repetition. */
function limited({ engine }: ModelCard) {
  if (engine.type === 'openai') throw new Error('Its tokens are not known.')
  return engine
}
