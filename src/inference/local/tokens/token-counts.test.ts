import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  branch,
  CARD,
  chat,
  countTokens,
  endless,
  expectAllFreed,
  generate,
  picture,
  RANDOM,
  trusted,
  until,
  untrusted,
} from '../../../../test/support/local-engine.ts'
import { loadCard } from '../../../models/card.ts'
import type { Constraint } from '../../contract/constraint.ts'
import type { Branch } from '../../contract/work.ts'
import { LocalEngine } from '../host/local-engine.ts'

let engine: LocalEngine
beforeAll(async () => {
  engine = await LocalEngine.start(await loadCard(CARD), { seed: 1 })
})
afterAll(() => engine?.close())

const forcing: Constraint = {
  type: 'json_schema',
  schema: {
    type: 'object',
    properties: { aLongNameThatIsForced: { type: 'boolean' } },
    required: ['aLongNameThatIsForced'],
  },
}

describe('the tokens of texts', () => {
  test.each<[string, Partial<Branch>]>([
    ['of chance, in which most characters are broken', { maxTokens: 200, sampling: RANDOM }],
    ['that a constraint forces', { maxTokens: 60, constraint: forcing }],
    ['of characters of several bytes', { maxTokens: 60, constraint: { type: 'regex', pattern: '(日本語😀é){5}' } }],
    ['of several completions', { n: 3, maxTokens: 40, sampling: RANDOM }],
  ])('%s are those of the finish, but for silent ones at its end', async (_, fields) => {
    const generation = await generate(engine, chat, [branch(fields)])
    const told = new Map<number, number>()
    let total = 0
    for await (const event of generation.events) {
      if (event.type === 'error') throw event.error
      if (event.type === 'text') {
        expect(event.tokens).toBeGreaterThan(0)
        expect(event.ends ?? [event.text.length]).toHaveLength(event.tokens)
        expect((event.ends ?? [event.text.length]).at(-1)).toBe(event.text.length)
        told.set(event.completion, (told.get(event.completion) ?? 0) + event.tokens)
        continue
      }
      total += event.completionTokens
      const silent = event.completionTokens - (told.get(event.completion) ?? 0)
      expect(silent).toBeGreaterThanOrEqual(0)
      // Random free text may end within a character; any other ends with a complete one.
      if (fields.sampling !== RANDOM) expect(silent).toBe(0)
    }
    expect(generation.computedTokens()).toBe(total)
  })

  test('are known for aborted work with unread events', async () => {
    const leaving = new AbortController()
    const before = (await engine.stats()).decodedTokens
    const generation = await generate(engine, chat, [endless(4)], { signal: leaving.signal })
    await until(() => generation.computedTokens() > 200)
    leaving.abort()
    const { decodedTokens } = await expectAllFreed(engine)
    // What the engine computed until it heard of the abort is not told any more.
    expect(generation.computedTokens()).toBeLessThanOrEqual(decodedTokens - before)
  })
})

describe('counting tokens', () => {
  test('needs no pixels', async () => {
    const { type, image } = picture(256, 256)
    const empty = { type, image: { ...image, data: new Uint8Array(0) } }
    expect(await countTokens(engine, [trusted('a'), empty, empty])).toBe(
      await countTokens(engine, [trusted('a'), picture(256, 256), picture(256, 256, 1)]),
    )
    // What is to be seen needs them.
    await expect(generate(engine, [empty, untrusted('What?')], [branch()])).rejects.toThrow()
  })

  test('ends with its signal', async () => {
    const leaving = new AbortController()
    const long = untrusted('word '.repeat(1_000_000))
    const counting = countTokens(engine, [long], leaving.signal)
    leaving.abort(new Error('left'))
    await expect(counting).rejects.toThrow('left')
    await expect(countTokens(engine, [long], leaving.signal)).rejects.toThrow('left')
    expect(await countTokens(engine, [untrusted('a')])).toBe(1)
  })
})
