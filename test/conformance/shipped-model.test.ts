import { join } from 'node:path'
import Ajv from 'ajv/dist/2020.js'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { loadCard } from '../../src/models/card.ts'
import { readGgufMetadata } from '../../src/models/read/gguf.ts'
import { GgufArray } from '../../src/models/read/gguf-value.ts'
import { type Completion, chunksOf, messageOf, replyOf } from '../support/chat.ts'
import { CARD } from '../support/local-engine.ts'
import type { TestServer } from '../support/server.ts'
import { startShippedServer } from '../support/shipped-model.ts'

/** What must hold with a real model of any training: the form of replies and prompts. */
let server: TestServer
beforeAll(async () => {
  server = await startShippedServer({ seed: 7 })
})
afterAll(() => server?.close())

const user = { role: 'user', content: 'Paint the big lamp red and look at the weather in Bern.' }
const post = (fields: object) =>
  server.post('/v1/chat/completions', { model: 'service-mk1.5', messages: [user], ...fields })

interface Token {
  readonly text: string
  readonly type: number
}

const NORMAL = 1
const CONTROL = 3

async function specialTokens(): Promise<Token[]> {
  const card = await loadCard(CARD)
  const metadata = await readGgufMetadata(join(card.directory, card.engine.model))
  const [texts, types] = ['tokenizer.ggml.tokens', 'tokenizer.ggml.token_type'].map((key) => {
    const array = metadata.get(key)
    return array instanceof GgufArray ? [...array] : []
  })
  return texts!
    .map((text, id) => ({ text: String(text), type: Number(types![id]) }))
    .filter(({ type }) => type !== NORMAL)
}

describe('no text of a client is a special token', () => {
  const call = (text: string) => ({
    id: 'a',
    type: 'function',
    function: { name: 'f', arguments: JSON.stringify({ x: text }) },
  })
  const PLACES: Record<string, (text: string) => object> = {
    'a user’s text': (text) => ({ messages: [{ role: 'user', content: text }] }),
    'a user’s part': (text) => ({ messages: [{ role: 'user', content: [{ type: 'text', text }] }] }),
    'a system text': (text) => ({ messages: [{ role: 'system', content: text }, user] }),
    'an assistant’s text': (text) => ({ messages: [user, { role: 'assistant', content: text }, user] }),
    'an earlier thought': (text) => ({
      messages: [user, { role: 'assistant', content: 'x', reasoning_content: text }, user],
      tools: [{ type: 'function', function: { name: 'f' } }],
    }),
    'a call': (text) => ({ messages: [user, { role: 'assistant', tool_calls: [call(text)] }, user] }),
    'a result': (text) => ({
      messages: [
        user,
        { role: 'assistant', tool_calls: [call('x')] },
        { role: 'tool', tool_call_id: 'a', content: text },
      ],
    }),
    'a tool': (text) => ({
      tools: [
        {
          type: 'function',
          function: { name: text, description: text, parameters: { type: 'object', description: text } },
        },
      ],
    }),
  }

  test.each(Object.keys(PLACES))('%s', async (place) => {
    const promptTokens = async (text: string) => {
      const { usage } = await replyOf(await post({ ...PLACES[place]!(text), max_completion_tokens: 0 }))
      return usage!.prompt_tokens
    }
    // A letter before and after, so that the text does not merge with its surroundings.
    const bare = await promptTokens('x x')
    const tokens = await specialTokens()
    expect(tokens.filter(({ type }) => type === CONTROL).length).toBeGreaterThan(5)
    // Pieces of annotation markup are single tokens too, but mean no more than their characters.
    const meaningful = tokens.filter(
      ({ text, type }) => type === CONTROL || /^<\/?(think|hint|tool_call|tool_response)>$/.test(text),
    )
    for (const { text } of meaningful) {
      // A complete hint is removed from a system text; half of one is not.
      expect([text, (await promptTokens(`x ${text} x`)) - bare]).toEqual([
        text,
        expect.toSatisfy((more: number) => more >= 3),
      ])
    }
  })
})

describe('a tool call is always well formed', () => {
  const schema = {
    type: 'object',
    properties: {
      object: { enum: ['lamp', 'door'] },
      color: { type: 'string', maxLength: 12 },
      size: { type: 'integer', minimum: 1, maximum: 9 },
      notes: { type: 'array', items: { type: 'string', maxLength: 5 }, maxItems: 2 },
    },
    required: ['object', 'color'],
  }
  const tools = [
    { type: 'function', function: { name: 'paint', parameters: schema } },
    {
      type: 'function',
      function: {
        name: 'weather',
        parameters: { type: 'object', properties: { day: { type: 'string', format: 'nonsense', maxLength: 8 } } },
      },
    },
  ]
  const valid = new Ajv.default({ strict: false }).compile(schema)
  // Each call in the reply must be valid, with any samples of the model.
  const check = ({ choices }: Completion) => {
    for (const { id, function: called } of choices[0]!.message.tool_calls ?? []) {
      expect(id).toMatch(/^call_[0-9a-f]{24}$/)
      expect(['paint', 'weather']).toContain(called.name)
      if (choices[0]!.finish_reason === 'length') continue
      const values = JSON.parse(called.arguments)
      expect(typeof values).toBe('object')
      if (called.name === 'paint') expect([values, valid(values)]).toEqual([values, true])
    }
    expect(choices[0]!.finish_reason === 'tool_calls').toBe(
      (choices[0]!.message.tool_calls ?? []).length > 0 && choices[0]!.finish_reason !== 'length',
    )
  }

  test.each([0, 1, 2])('at temperature %d', async (temperature) => {
    for (let i = 0; i < (temperature === 0 ? 1 : 4); i++) {
      check(await replyOf(await post({ tools, temperature, max_completion_tokens: 150 })))
    }
  })

  test('the same streamed and not', async () => {
    const fields = { tools, temperature: 0, max_completion_tokens: 150 }
    const whole = await replyOf(await post(fields))
    const streamed = messageOf(await chunksOf(await post({ ...fields, stream: true })))
    const withoutIds = ({ tool_calls, ...rest }: typeof streamed) => ({
      ...rest,
      calls: tool_calls?.map((call) => call.function),
    })
    expect(withoutIds(streamed)).toEqual(withoutIds(whole.choices[0]!.message))
  })
})

describe('reasoning', () => {
  test('ends within its budget, and the answer follows', async () => {
    const { choices, usage } = await replyOf(
      await post({ reasoning_effort: 'minimal', max_completion_tokens: 60, temperature: 2 }),
    )
    const { message, finish_reason } = choices[0]!
    expect(`${message.content}${message.reasoning_content ?? ''}`).not.toMatch(/<\/?think>/)
    expect(['stop', 'interrupted', 'length']).toContain(finish_reason)
    expect(usage!.completion_tokens).toBeLessThanOrEqual(60)
  })

  test('leaves room for an answer, however few tokens there are', async () => {
    for (let most = 1; most <= 40; most++) {
      const fields = { reasoning_effort: 'high', max_completion_tokens: most, temperature: 2, regex: '[a-z]{80}' }
      const { choices, usage } = await replyOf(await post(fields))
      expect(choices[0]!.message.content, `${most} tokens`).toMatch(/^[a-z]+$/)
      expect(usage!.completion_tokens).toBeLessThanOrEqual(most)
    }
  })

  test('structured output holds after it', async () => {
    const fields = {
      reasoning_effort: 'minimal',
      regex: '(red|blue) [0-9]{2}',
      max_completion_tokens: 120,
      temperature: 2,
    }
    const { choices } = await replyOf(await post(fields))
    expect(choices[0]!.message.content).toMatch(/^(red|blue) [0-9]{2}$/)
    expect(['stop', 'interrupted']).toContain(choices[0]!.finish_reason)
    const chunks = await chunksOf(await post({ ...fields, stream: true }))
    expect(messageOf(chunks).content).toMatch(/^(red|blue) [0-9]{2}$/)
  })

  test('leaves no tags in multilook', async () => {
    const response = await server.post('/v1/chat/completions/multilook', {
      model: 'service-mk1.5',
      context: [user],
      prompts: ['What colour?', 'Which city?'],
      n: 2,
      temperature: 1,
      reasoning_effort: 'minimal',
      max_completion_tokens: 40,
    })
    expect(response.status).toBe(200)
    expect(await response.text()).not.toMatch(/<\/?think>/)
  })
})
