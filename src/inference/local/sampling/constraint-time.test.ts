import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { apiError, branch, CARD, chat, collect, generate, longestPause } from '../../../../test/support/local-engine.ts'
import { loadCard } from '../../../models/card.ts'
import { ConstraintThreads } from '../../constraints/constraint-threads.ts'
import type { Constraint, Notation } from '../../contract/constraint.ts'
import { LocalEngine } from '../host/local-engine.ts'
import type { Model } from '../native/model.ts'
import { ConstraintCompiler } from './constraint-compiler.ts'

let engine: LocalEngine
beforeAll(async () => {
  engine = await LocalEngine.start(await loadCard(CARD), { seed: 1 })
})
afterAll(() => engine?.close())

const tool = (seed: number) => {
  const deep = `${'{"type":"object","not":{},"properties":{"b":{"if":1},"a":'.repeat(30)}{"not":1}${'}}'.repeat(30)}`
  return JSON.parse(`{"x${seed}":1,"properties":{"z":${deep}}}`) as unknown
}
const tools = (notation?: Notation): Constraint => ({
  type: 'triggered_tags',
  triggers: ['<call>'],
  tags: Array.from({ length: 200 }, (_, i) => ({
    begin: `<call>${i}`,
    content: { type: 'json_schema', schema: tool(i), lenient: true, ...(notation && { notation }) },
    end: '</call>',
  })),
})

test.each<[string, Constraint]>([
  ['a pattern of many counts', { type: 'regex', pattern: '(a?){5000}a{5000}' }],
  ['a pattern of counts within counts', { type: 'regex', pattern: '(a{1,9}[a-z]{0,90}){0,60}' }],
  [
    'a pattern of many counts that is searched for',
    { type: 'json_schema', schema: { type: 'string', pattern: '[a-z ][a-z ]{900}\\d|(a{1,9}[a-z ]{0,90}){1,60}\\d' } },
  ],
  [
    'an object of countless members',
    { type: 'json_schema', schema: { type: 'object', minProperties: 1, maxProperties: 100_000_000 } },
  ],
  ['two hundred tools with much that is left out', tools()],
  [
    'two hundred tools in a notation of their own',
    tools({ without: ['</value>', '</call>'], member: { begin: '<value ', between: '>', end: '</value>' } }),
  ],
])('%s delays no other request', async (_, constraint) => {
  const pause = await longestPause(engine, async () => {
    const work = await generate(engine, chat, [branch({ constraint, maxTokens: 40 })])
    expect((await collect(work)).finishes).toHaveLength(1)
  })
  // It was 4 s a token, and 7 s to compile. The margin is for a busy machine.
  expect(pause).toBeLessThan(1500)
})

test('an unsupported part of a long constraint is rejected by name, as in a short one', async () => {
  const properties = Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`name${i}`, { type: 'string' }]))
  const schema = { type: 'object', properties: { ...properties, last: { pattern: '(a)\\1' } } }
  const refused = generate(engine, chat, [
    branch({ constraint: { type: 'json_schema', schema, param: 'response_format.json_schema.schema' } }),
  ])
  await expect(refused).rejects.toEqual(
    apiError({ status: 400, param: 'response_format.json_schema.schema.properties.last.pattern' }),
  )
})

const definitions = {
  a: { type: 'object', properties: { x: { type: 'integer' } } },
  b: { anyOf: [{}, { minimum: 1 }] },
}
test.each<[where: 'here' | 'in a thread', schema: object]>([
  ['here', { properties: { a: { title: 'A', description: 'Nested', allOf: [{ $ref: '#/definitions/a' }] } } }],
  ['here', { properties: { a: { allOf: [{ $ref: '#/definitions/a' }], nullable: true } } }],
  ['here', { $ref: '#/definitions/a' }],
  ['here', { properties: { dependents: { type: 'integer' }, name: { enum: ['allOf', 'pattern'] } } }],
  ['in a thread', { dependentRequired: { a: ['b'] } }],
  ['in a thread', { allOf: [{ $ref: '#/definitions/a' }, { $ref: '#/definitions/b' }] }],
  ['in a thread', { allOf: [{ $ref: '#/definitions/b' }], anyOf: [{ minItems: 1 }, { maxLength: 1 }] }],
  ['in a thread', { $ref: '#/definitions/b', anyOf: [{ minItems: 1 }, { maxLength: 1 }] }],
  ['in a thread', { properties: { a: { allOf: [{ pattern: '^a' }] } } }],
])('%s is compiled: %j', async (where, schema) => {
  const inThread = vi.spyOn(ConstraintThreads.prototype, 'compile').mockRejectedValue(new Error('in a thread'))
  onTestFinished(() => inThread.mockRestore())
  const bytes = { vocabularySize: 257, isEndOfGeneration: (token: number) => token === 256 }
  const model = { ...bytes, piece: (token: number) => Uint8Array.of(token) } as unknown as Model
  const constraint: Constraint = { type: 'json_schema', schema: { ...schema, definitions } }
  const compiled = new ConstraintCompiler(model).prepare(constraint, 'test').then(() => 'here')
  expect(await compiled.catch(({ message }: Error) => message)).toBe(where)
})
