import Ajv from 'ajv/dist/2020.js'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ReplyCollector } from '../../src/conversation/reply/reply.ts'
import type { Tool } from '../../src/conversation/request/tool.ts'
import { TOOL_SYNTAXES } from '../../src/conversation/tools/syntaxes.ts'
import type { Engine } from '../../src/inference/contract/engine.ts'
import { startEngine } from '../../src/inference/engines/engines.ts'
import { loadCard } from '../../src/models/card.ts'
import { assistant, branch, collect, GREEDY, generate, question, RANDOM } from '../support/local-engine.ts'
import { shippedCard, startShippedEngine } from '../support/shipped-model.ts'
import { callReader } from '../support/written-calls.ts'

/** Every syntax constrains a real engine to calls that can be parsed, though the model has learnt only one of them. */
let engine: Engine
beforeAll(async () => {
  engine = await startShippedEngine({ seed: 11 })
})
afterAll(() => engine?.close())

const schema = {
  type: 'object',
  properties: {
    days: { type: 'integer' },
    unit: { enum: ['metric', 'imperial'] },
    exact: { type: 'boolean' },
    city: { type: 'string', maxLength: 12 },
  },
  required: ['days', 'unit'],
  additionalProperties: false,
}
const tools: Tool[] = [
  { name: 'weather', description: null, parameters: JSON.stringify(schema) },
  { name: 'get-time.now', description: null, parameters: null },
]
const valid = new Ajv.default({ strict: false }).compile(schema)
const HOT = { ...GREEDY, temperature: 1.5 }

test('control tokens of a syntax are printed where the card says so', async () => {
  const card = await loadCard(shippedCard())
  if (card.engine.type === 'openai') throw new Error('Its tokens are not known.')
  const printing = await startEngine({ ...card, engine: { ...card.engine, printedTokens: ['<|audio_start|>'] } })
  try {
    const constraint = { type: 'regex', pattern: '<\\|audio_start\\|>ok' } as const
    const work = [branch({ n: 16, maxTokens: 30, sampling: RANDOM, constraint })]
    const { texts, finishes } = await collect(await generate(printing, [...question, assistant], work))
    expect(new Set(Object.values(texts))).toEqual(new Set(['<|audio_start|>ok']))
    // Some completions spell the token letter by letter, which is allowed.
    expect(Math.min(...finishes.map(({ completionTokens }) => completionTokens))).toBeLessThan(5)
  } finally {
    await printing.close()
  }
  const wrong = { ...card, engine: { ...card.engine, printedTokens: ['<|no_such|>'] } }
  await expect(startEngine(wrong)).rejects.toThrow(/<\|no_such\|>/)
})

test.each(Object.entries(TOOL_SYNTAXES))('%s', async (_, syntax) => {
  const constraint = { ...syntax.constraint(tools, true, true), atLeastOne: true }
  const hasNotation = JSON.stringify(constraint).includes('"notation"')
  // Many completions, because most run to the token limit in a syntax that the model has not learnt.
  const work = [branch({ n: 12, maxTokens: 400, sampling: HOT, constraint }), branch({ maxTokens: 400, constraint })]
  const { texts, finishes } = await collect(await generate(engine, [...question, assistant], work))
  for (const { branch, completion, reason } of finishes) {
    const text = texts[`${branch}.${completion}`]!
    const reader = callReader(syntax, tools)
    const collector = new ReplyCollector()
    for (const piece of [...reader.push(text), ...reader.end(reason === 'length')]) collector.add(piece)
    const { toolCalls } = collector.message
    // `atLeastOne` makes the model start with a call.
    expect([text, toolCalls.length, collector.message.text]).toEqual([
      text,
      reason === 'stop' ? 1 : toolCalls.length,
      '',
    ])
    if (reason === 'length') continue
    const values = JSON.parse(toolCalls[0]!.arguments)
    // These syntaxes cannot bound the length of a string.
    if (hasNotation) values.city = String(values.city ?? '').slice(0, 12)
    if (toolCalls[0]!.name === 'weather') expect([text, valid(values)]).toEqual([text, true])
    else expect(toolCalls[0]!.name).toBe('get-time.now')
  }
  expect(finishes.filter(({ reason }) => reason === 'stop').length).toBeGreaterThan(0)
})
