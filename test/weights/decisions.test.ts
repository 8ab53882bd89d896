import { readFile } from 'node:fs/promises'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { TestServer } from '../support/server.ts'
import { startShippedServer } from '../support/shipped-model.ts'

/** What the shipped model decides about docs/pictures/shapes.png. */
describe('decisions', () => {
  let server: TestServer
  let input: OpenAI.DecisionCreateParams['input']
  let client: OpenAI
  beforeAll(async () => {
    const png = await readFile('docs/pictures/shapes.png')
    const image_url = `data:image/png;base64,${png.toString('base64')}`
    input = [{ role: 'user', content: [{ type: 'input_image', image_url }] }]
    server = await startShippedServer()
    client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: server.service.apiKey! })
  })
  afterAll(() => server?.close())

  const ask = async (questions: readonly object[]): Promise<Record<string, unknown>[]> => {
    const body = { model: 'service-mk1.5', input, questions } as unknown as OpenAI.DecisionCreateParams
    return (await client.decisions.create(body)).answers as unknown as Record<string, unknown>[]
  }

  test.each([
    ['Is there a red circle?', true],
    ['Is there a red heart?', false],
    ['There is a blue star.', true],
    ['There is a blue ring.', false],
  ])('%s', async (instructions, isTrue) => {
    const [answer] = await ask([{ type: 'predicate', instructions }])
    expect((answer!.probability as number) > 0.5).toBe(isTrue)
    expect(answer!.x_label_mass).toBeGreaterThan(0.9)
  })

  test('colours, places, sizes and numbers', async () => {
    const choice = (instructions: string, ...values: string[]) => ({
      type: 'choice',
      instructions,
      choices: values.map((value) => ({ value })),
    })
    const answers = await ask([
      choice('What colour is the heart?', 'red', 'green', 'purple', 'blue'),
      choice('Where is the heart?', 'top left', 'top right', 'bottom left', 'bottom right'),
      { type: 'x_count', instructions: 'How many hearts are there?' },
    ])
    expect(answers).toMatchObject([{ choice: 'purple' }, { choice: 'bottom right' }, { count: 1 }])
    for (const { x_label_mass } of answers) expect(x_label_mass).toBeGreaterThan(0.9)
  })

  test('a box around what is there, and none around what is not', async () => {
    const [heart, ring] = await ask([
      { type: 'x_box', instructions: 'purple heart' },
      { type: 'x_box', instructions: 'green ring' },
    ])
    const { left, right, top, bottom } = heart!.box as Record<string, number>
    expect(left! < 0.8 && right! > 0.8 && top! < 0.73 && bottom! > 0.73).toBe(true)
    expect(ring!.box).toBeNull()
  })
})
