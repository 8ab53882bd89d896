import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  apiError,
  branch,
  CARD,
  countTokens,
  generate,
  longestPause,
  picture,
  trusted,
  untrusted,
} from '../../../../test/support/local-engine.ts'
import { loadCard } from '../../../models/card.ts'
import type { PromptPart } from '../../contract/parts.ts'
import { LocalEngine } from '../host/local-engine.ts'

let engine: LocalEngine
beforeAll(async () => {
  engine = await LocalEngine.start(await loadCard(CARD), { seed: 1 })
})
afterAll(() => engine?.close())

const MEGABYTE = 2 ** 20
const ask = (parts: PromptPart[]) => generate(engine, [...parts, trusted('<|im_end|>\n')], [branch({ maxTokens: 1 })])

describe('a text that cannot fit', () => {
  test.each([
    ['of one letter', 'a', untrusted],
    ['of words', 'word ', untrusted],
    ['of blanks', ' ', untrusted],
    ['of a mark', '<think>x', untrusted],
    ['of a mark in trusted text', 'x<think>', trusted],
    ['of characters of several bytes', '日本語😀', untrusted],
  ])('%s is refused while others go on', async (_, unit, part) => {
    const text = part(unit.repeat((19 * MEGABYTE) / Buffer.byteLength(unit)))
    const pause = await longestPause(engine, async () => {
      await expect(ask([text])).rejects.toEqual(apiError({ status: 400, param: 'messages' }))
      expect(await countTokens(engine, [picture(256, 256), text])).toBe(Number.POSITIVE_INFINITY)
    })
    // It was 4 to 5 s, and minutes for marks. The margin is for a busy machine.
    expect(pause).toBeLessThan(1000)
  })
})

describe('a long text that fits', () => {
  test('costs the same beside pictures, in one part or several', async () => {
    const words = 'The quick brown fox jumps over 13 lazy dogs, twice. '.repeat(1000)
    const alone = await countTokens(engine, [untrusted(words)])
    const around = await countTokens(engine, [picture(256, 256)])
    expect(await countTokens(engine, [untrusted(words), picture(256, 256)])).toBe(alone + around)
    expect(await countTokens(engine, [untrusted(words), trusted('<|im_end|>'), untrusted(words)])).toBe(2 * alone + 1)
    const { prompts } = await ask([untrusted(words), picture(256, 256)])
    expect(prompts).toEqual([expect.objectContaining({ promptTokens: alone + around + 2, imageTokens: 64 })])
  })

  test('costs as much as its lines do, wherever it is cut', async () => {
    const line = 'The quick brown fox jumps over 13 lazy dogs, twice.\n'
    const one = await countTokens(engine, [untrusted(line)])
    expect(await countTokens(engine, [untrusted(line.repeat(1200))])).toBe(1200 * one)
  })

  test('of marks alone takes no time from others', async () => {
    const text = untrusted('<think>x'.repeat(7_000))
    expect(await longestPause(engine, () => countTokens(engine, [text]))).toBeLessThan(500)
  })
})
