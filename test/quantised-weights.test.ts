import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readConfig } from '../src/config/config.ts'
import { Service } from '../src/service.ts'
import { writeQuantisedModel } from './support/quantised-model.ts'

/**
 * Most open checkpoints have quantised weights. Their products use other kernels than the shipped f16 weights: AMX,
 * where the processor has it. This test serves the shipped model with its matrices as Q8_0.
 */

let folder: string
let service: Service

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lookout-q8-'))
  const card = await writeQuantisedModel(folder)
  const environment = {
    LOOKOUT_PORT: '0',
    LOOKOUT_API_KEY: 'k',
    LOOKOUT_LOG_LEVEL: 'silent',
    LOOKOUT_RATE_LIMITS: 'off',
    LOOKOUT_MODEL_CARD: card,
  }
  service = await Service.start(readConfig(environment))
})
afterAll(async () => {
  await service?.close()
  await rm(folder, { recursive: true, force: true })
})

interface Choices {
  choices: { message: { content: string } }[]
}

test('quantised weights answer about an image, alone and in a batch', async () => {
  const url = `data:image/png;base64,${(await readFile('docs/pictures/shapes.png')).toString('base64')}`
  const image = { type: 'image_url', image_url: { url } }
  const ask = async <Body>(path: string, body: object): Promise<Body> => {
    const response = await fetch(service.url + path, {
      method: 'POST',
      headers: { authorization: 'Bearer k', 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'service-mk1.5', ...body }),
    })
    expect(response.status).toBe(200)
    return (await response.json()) as Body
  }
  const text = 'What colour is the star?'
  const chat = await ask<Choices>('/v1/chat/completions', {
    messages: [{ role: 'user', content: [image, { type: 'text', text }] }],
  })
  expect(chat.choices[0]?.message.content).toBe('Blue.')

  const prompts = Array.from({ length: 16 }, (_, n) => (n % 2 === 0 ? text : 'Is there a red circle?'))
  const looks = await ask<{ results: { completions: Choices['choices'] }[] }>('/v1/chat/completions/multilook', {
    context: [{ role: 'user', content: [image] }],
    prompts,
  })
  const answers = looks.results.map((result) => result.completions.map(({ message }) => message.content))
  expect(answers).toEqual(prompts.map((prompt) => [prompt === text ? 'Blue.' : 'Yes.']))
})
