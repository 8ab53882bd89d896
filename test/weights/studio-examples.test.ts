import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { STRUCTURE_EXAMPLES } from '../../studio/src/structure/structure-examples.ts'
import { jsonOf, type TestServer } from '../support/server.ts'
import { startShippedServer } from '../support/shipped-model.ts'

/** The examples of the Studio's Structure are answered rightly about its sample picture: a wrong one would be the first that people see. */

const ANSWERS: Readonly<Record<string, unknown>> = {
  'A list': {
    objects: ['blue star', 'green triangle', 'orange square', 'orange square', 'purple heart', 'red circle'],
  },
  'A sentence': {
    description: 'A red circle, an orange square, a blue star, an orange square, a green triangle and a purple heart.',
  },
  'A colour': { colour: 'purple' },
  'A place': { place: 'top center' },
  'A count': { count: 2 },
  'True or false': { answer: true },
  'A number': '2',
  'A colour and a shape': 'red circle',
}

let server: TestServer
beforeAll(async () => {
  server = await startShippedServer()
})
afterAll(() => server?.close())

test.each(STRUCTURE_EXAMPLES)('$title', async ({ title, kind, question, text }) => {
  const url = `data:image/png;base64,${await readFile('docs/pictures/shapes.png', 'base64')}`
  const content = [
    { type: 'image_url', image_url: { url } },
    { type: 'text', text: question },
  ]
  const json_schema = { name: 'answer', strict: true, schema: kind === 'schema' ? JSON.parse(text) : null }
  const response = await server.post('/v1/chat/completions', {
    model: 'service-mk1.5',
    messages: [{ role: 'user', content }],
    ...(kind === 'regex' ? { regex: text } : { response_format: { type: 'json_schema', json_schema } }),
  })
  const { choices } = await jsonOf<{ choices: { message: { content: string } }[] }>(response)
  const reply = choices[0]!.message.content
  expect(kind === 'regex' ? reply : sorted(JSON.parse(reply))).toEqual(ANSWERS[title])
})

/** With the items of lists in an order of ours: that of the model may be another on another processor. */
function sorted(answer: Readonly<Record<string, unknown>>): object {
  const entries = Object.entries(answer)
  return Object.fromEntries(entries.map(([key, value]) => [key, Array.isArray(value) ? value.toSorted() : value]))
}
