import { expect, test } from 'vitest'
import { LocalEngine } from '../src/inference/local/host/local-engine.ts'
import { loadCard, type ModelCard } from '../src/models/card.ts'
import { CARD } from './support/local-engine.ts'
import { jsonOf, startTestServer } from './support/server.ts'

interface Answer {
  readonly choices: readonly { readonly finish_reason: string; readonly message: { readonly content: string } }[]
  readonly usage: { readonly completion_tokens: number }
}

/** Answers a chat whose regex allows nothing but repetition, whatever the weights. */
async function answer(repetition: ModelCard['engine']['repetition'], fields: object = {}): Promise<Answer> {
  const card = await loadCard(CARD)
  const startEngine = () => LocalEngine.start({ ...card, engine: { ...card.engine, repetition } }, { seed: 1 })
  const server = await startTestServer({ startEngine })
  try {
    const response = await server.post('/v1/chat/completions', {
      model: 'service-mk1.5',
      messages: [{ role: 'user', content: 'Count.' }],
      max_completion_tokens: 7000,
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
  const { engine } = await loadCard(CARD)
  const { choices, usage } = await answer(engine.repetition)
  expect(choices[0]!.finish_reason).toBe('length')
  expect(choices[0]!.message.content).toMatch(/^1+$/)
  expect(usage.completion_tokens).toBeGreaterThanOrEqual(engine.repetition!.tokens)
  // Forced tokens are generated in runs of up to 4096.
  expect(usage.completion_tokens).toBeLessThan(6000)
})

test('the card can turn that off', async () => {
  expect((await answer(null)).usage.completion_tokens).toBe(7000)
})

test('a negative presence_penalty allows repetition', async () => {
  const { engine } = await loadCard(CARD)
  const { usage } = await answer(engine.repetition, { presence_penalty: -2, max_completion_tokens: 6500 })
  expect(usage.completion_tokens).toBe(6500)
})
