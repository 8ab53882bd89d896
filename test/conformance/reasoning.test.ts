import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Thought } from '../../src/inference/contract/work.ts'
import { chunksOf, promptText, replyOf } from '../support/chat.ts'
import { errorOf, jsonOf, startTestServer, type TestServer } from '../support/server.ts'

/** The contract's rules for reasoning, with any thought of the model. */
let server: TestServer
beforeAll(async () => {
  server = await startTestServer()
})
afterAll(() => server?.close())
beforeEach(() => {
  server.engine.works.length = 0
  server.engine.script = { texts: ['Two', ' lamps.\n</th', 'ink>\n', '\nTw', 'o.'] }
})

const user = { role: 'user', content: 'How many?' }
const post = (fields: object) =>
  server.post('/v1/chat/completions', { model: 'service-mk1.5', messages: [user], ...fields })
const thought = (): Thought | undefined => server.engine.works.at(-1)!.branches[0]!.thought
const system = (content: unknown) => ({ messages: [{ role: 'system', content }, user] })

describe('what enables it, and its budget', () => {
  test.each<[string, object, number | null]>([
    ['nothing', {}, null],
    ['null', { reasoning_effort: null }, null],
    ['none', { reasoning_effort: 'none' }, null],
    ['minimal', { reasoning_effort: 'minimal' }, 256],
    ['low', { reasoning_effort: 'low' }, 1024],
    ['medium', { reasoning_effort: 'medium' }, 2048],
    ['high', { reasoning_effort: 'high' }, 4096],
    ['enable_thinking alone', { vision_config: { enable_thinking: true } }, 2048],
    ['enable_thinking with a tier', { reasoning_effort: 'low', vision_config: { enable_thinking: true } }, 1024],
    ['enable_thinking against none', { reasoning_effort: 'none', vision_config: { enable_thinking: true } }, 2048],
    ['enable_thinking off, at any tier', { reasoning_effort: 'high', vision_config: { enable_thinking: false } }, null],
    ['a hint', system('<hint>THINK</hint>Count.'), 2048],
    ['a hint in parts, with another', system([{ type: 'text', text: 'Count. <hint>BOX THINK</hint>' }]), 2048],
    ['a hint with a tier', { ...system('<hint>THINK</hint>'), reasoning_effort: 'minimal' }, 256],
    ['a hint against none', { ...system('<hint>THINK</hint>'), reasoning_effort: 'none' }, 2048],
    [
      'a hint against enable_thinking',
      { ...system('<hint>THINK</hint>'), vision_config: { enable_thinking: false } },
      null,
    ],
    ['a hint of the user is text', { messages: [{ role: 'user', content: '<hint>THINK</hint>' }] }, null],
    [
      'a small reply leaves a quarter of it to the answer',
      { reasoning_effort: 'high', max_completion_tokens: 100 },
      75,
    ],
    ['the smallest reply with a thought', { reasoning_effort: 'high', max_completion_tokens: 16 }, 12],
    ['a reply too small for a thought', { reasoning_effort: 'high', max_completion_tokens: 15 }, null],
    ['no reply at all', { reasoning_effort: 'high', max_completion_tokens: 0 }, 0],
  ])('%s', async (_, fields, budget) => {
    expect((await post(fields)).status).toBe(200)
    expect(thought() ?? null).toEqual(budget === null ? null : { end: '</think>', closing: '\n</think>\n\n', budget })
    expect(promptText(server.engine).endsWith('<|im_start|>assistant\n<think>\n')).toBe(budget !== null)
    expect(promptText(server.engine).includes('<hint>THINK')).toBe(_ === 'a hint of the user is text')
  })

  test.each([
    ['reasoning_effort', { reasoning_effort: 'low' }],
    ['vision_config.enable_thinking', { vision_config: { enable_thinking: true } }],
    ['messages[0].content', system('<hint>THINK</hint>')],
  ])('a model without reasoning rejects it: %s', async (param, fields) => {
    const response = await post({ model: 'service-mk1', ...fields })
    expect(response.status).toBe(400)
    expect(await errorOf(response)).toMatchObject({ type: 'invalid_request_error', param, code: null })
  })
})

describe('the reply', () => {
  test('has the thought in reasoning_content', async () => {
    const { choices, usage } = await replyOf(await post({ reasoning_effort: 'low' }))
    expect(choices).toEqual([
      {
        index: 0,
        message: { role: 'assistant', content: 'Two.', reasoning_content: 'Two lamps.' },
        finish_reason: 'stop',
      },
    ])
    expect(usage!.completion_tokens).toBe(5)
  })

  test('has no reasoning_content without a thought', async () => {
    server.engine.script = { texts: ['\n</think>\n\nTwo.'] }
    const { choices } = await replyOf(await post({ reasoning_effort: 'low' }))
    expect(choices[0]!.message).toEqual({ role: 'assistant', content: 'Two.' })
  })

  test('streams the thought, then the content, without tags', async () => {
    const chunks = await chunksOf(await post({ reasoning_effort: 'low', stream: true }))
    expect(chunks.map(({ choices }) => choices[0]!.delta)).toEqual([
      { role: 'assistant', content: '' },
      { reasoning_content: 'Two' },
      { reasoning_content: ' lamps.' },
      { content: 'Tw' },
      { content: 'o.' },
      {},
    ])
  })

  test.each([
    ['stop', {}, 'stop'],
    ['interrupted', { thoughtInterrupted: true }, 'interrupted'],
    ['length', { thoughtInterrupted: true, reason: 'length' }, 'length'],
  ] as const)('ends with %s', async (_, script, finish) => {
    server.engine.script = { ...server.engine.script, ...script }
    expect((await replyOf(await post({ reasoning_effort: 'low' }))).choices[0]!.finish_reason).toBe(finish)
    const chunks = await chunksOf(await post({ reasoning_effort: 'low', stream: true }))
    expect(chunks.at(-1)!.choices[0]!.finish_reason).toBe(finish)
  })

  test('that is cut off within the thought has no content', async () => {
    server.engine.script = { texts: ['Let me see.\n</th'], reason: 'length' }
    const { choices } = await replyOf(await post({ reasoning_effort: 'low' }))
    expect(choices[0]).toMatchObject({
      message: { content: '', reasoning_content: 'Let me see.' },
      finish_reason: 'length',
    })
  })

  test('of a model that thinks without being asked has no tags in its content either', async () => {
    server.engine.script = { texts: ['<thi', 'nk>Hm', '</think>Two', ' </thi', 'nk>.'] }
    const { choices } = await replyOf(await post({}))
    expect(choices[0]!.message).toEqual({ role: 'assistant', content: 'Two .', reasoning_content: 'Hm' })
  })
})

describe('a model whose card promises no reasoning may think all the same', () => {
  const asked = { model: 'service-mk1', messages: [user] }
  beforeEach(() => {
    server.engine.script = { texts: ['<thi', 'nk>\nHm', '.</think>Two', '.'] }
  })

  test('in chat completions', async () => {
    const { choices } = await replyOf(await server.post('/v1/chat/completions', asked))
    expect(choices[0]!.message).toEqual({ role: 'assistant', content: 'Two.', reasoning_content: 'Hm.' })
    const chunks = await chunksOf(await server.post('/v1/chat/completions', { ...asked, stream: true }))
    const said = chunks.map(({ choices: [choice] }) => choice!.delta.content ?? '').join('')
    expect(said).toBe('Two.')
  })

  test('in responses', async () => {
    const response = await server.post('/v1/responses', { model: 'service-mk1', input: 'How many?' })
    const { output } = await jsonOf<{ output: { type: string; content: { text: string }[] }[] }>(response)
    expect(output.map(({ type, content }) => [type, content.map(({ text }) => text).join('')])).toEqual([
      ['reasoning', 'Hm.'],
      ['message', 'Two.'],
    ])
  })

  test('in messages', async () => {
    const { content } = await jsonOf<{ content: object[] }>(
      await server.post('/v1/messages', { ...asked, max_tokens: 50 }),
    )
    expect(content).toMatchObject([
      { type: 'thinking', thinking: 'Hm.' },
      { type: 'text', text: 'Two.' },
    ])
  })
})

describe('with structured output', () => {
  const format = {
    type: 'json_schema',
    json_schema: { name: 'count', schema: { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] } },
  }

  test('the constraint begins after the thought', async () => {
    server.engine.script = { texts: ['Two lamps', '.\n</think>\n\n', '{"n": 2}'] }
    const { choices } = await replyOf(await post({ reasoning_effort: 'low', response_format: format }))
    expect(choices[0]!.message).toEqual({ role: 'assistant', content: '{"n": 2}', reasoning_content: 'Two lamps.' })
    expect(server.engine.works[0]!.branches[0]).toMatchObject({
      constraint: { type: 'json_schema' },
      thought: { budget: 1024 },
    })
  })

  test('the output is checked after an interrupted thought as well', async () => {
    server.engine.script = { texts: ['\n</think>\n\n{"n": "two"}'], thoughtInterrupted: true }
    const response = await post({ reasoning_effort: 'low', response_format: format })
    expect(response.status).toBe(500)
    expect(await errorOf(response)).toMatchObject({ code: 'output_validation_failed', param: 'response_format' })
  })
})

describe('earlier thoughts', () => {
  const call = { id: 'a', type: 'function', function: { name: 'count', arguments: '{}' } }
  const said = { role: 'assistant', content: 'Wait.', reasoning_content: 'I had to count.' }
  const tools = [{ type: 'function', function: { name: 'count' } }]

  test('are shown in a conversation with tools', async () => {
    const result = { role: 'tool', tool_call_id: 'a', content: '2' }
    await post({ messages: [user, { ...said, tool_calls: [call] }, result] })
    expect(promptText(server.engine)).toContain('assistant\n<think>\nI had to count.\n</think>\n\nWait.\n<tool_call>')
    await post({ messages: [user, said, user], tools })
    expect(promptText(server.engine)).toContain('<think>\nI had to count.\n</think>\n\nWait.')
  })

  test('are ignored in any other', async () => {
    await post({ messages: [user, said, user] })
    expect(promptText(server.engine)).not.toContain('I had to count')
    await post({ messages: [user, said, user], tools: [] })
    expect(promptText(server.engine)).not.toContain('I had to count')
  })
})

describe('multilook', () => {
  const multilook = (fields: object) =>
    server.post('/v1/chat/completions/multilook', {
      model: 'service-mk1.5',
      context: [user],
      prompts: ['a', 'b'],
      ...fields,
    })

  test('gives each prompt a thought of its own', async () => {
    server.engine.script = {
      branch: (_, index) => (index === 0 ? { thoughtInterrupted: true } : { texts: ['\n</think>\n\nNone.'] }),
      texts: ['Hm.\n</think>\n\nTwo.'],
    }
    const { results } = await jsonOf<{ results: unknown[] }>(await multilook({ reasoning_effort: 'minimal' }))
    expect(results).toMatchObject([
      { completions: [{ message: { content: 'Two.', reasoning_content: 'Hm.' }, finish_reason: 'interrupted' }] },
      { completions: [{ message: { role: 'assistant', content: 'None.' }, finish_reason: 'stop' }] },
    ])
    for (const { suffix, thought } of server.engine.works[0]!.branches) {
      expect(suffix.at(-1)).toMatchObject({ text: expect.stringMatching(/assistant\n<think>\n$/), trusted: true })
      expect(thought).toMatchObject({ budget: 256 })
    }
  })

  test('is rejected for a model without reasoning', async () => {
    expect(await errorOf(await multilook({ model: 'service-mk1', reasoning_effort: 'low' }))).toMatchObject({
      param: 'reasoning_effort',
    })
  })
})
