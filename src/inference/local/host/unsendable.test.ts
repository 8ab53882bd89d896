import { afterAll, beforeAll, expect, test } from 'vitest'
import { apiError, branch, CARD, chat, generate, run } from '../../../../test/support/local-engine.ts'
import { loadCard } from '../../../models/card.ts'
import type { Constraint } from '../../contract/constraint.ts'
import { LocalEngine } from './local-engine.ts'

let engine: LocalEngine
beforeAll(async () => {
  engine = await LocalEngine.start(await loadCard(CARD), { seed: 1 })
})
afterAll(() => engine?.close())

/** Generates and aborts at once. It must not leave a promise that could reject unhandled. */
async function rejection(constraint: Constraint): Promise<unknown> {
  const leaving = new AbortController()
  const error = await generate(engine, chat, [branch({ constraint })], { signal: leaving.signal }).catch(
    (thrown: unknown) => thrown,
  )
  leaving.abort(new Error('left'))
  return error
}

function nested(levels: number): unknown {
  let schema: unknown = true
  for (let level = 0; level < levels; level++) schema = { not: schema }
  return schema
}

test('schemas too deep to send are rejected by the name of their field, in tags too', async () => {
  const { pid } = engine
  for (const levels of [101, 3000, 100_000]) {
    const content = { type: 'json_schema', schema: nested(levels), lenient: true } as const
    const rejected = apiError({ status: 400, param: 'tools', message: 'The schema is nested deeper than 100 levels' })
    expect(await rejection({ ...content, param: 'tools' })).toEqual(rejected)
    const tags = [{ begin: '<a>', content, end: '</a>' }]
    expect(await rejection({ type: 'triggered_tags', triggers: ['<a>'], tags, param: 'tools' })).toEqual(rejected)
  }
  expect(engine.pid).toBe(pid)
})

test('a work that cannot be sent fails without affecting others', async () => {
  const { pid } = engine
  expect(await rejection({ type: 'json_schema', schema: { const: () => 1 } })).toBeInstanceOf(Error)
  expect((await run(engine, chat, branch({ maxTokens: 4 }))).finishes).toHaveLength(1)
  expect(engine.pid).toBe(pid)
})
