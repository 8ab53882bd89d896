import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  branch,
  collect,
  countTokens,
  picture,
  REPEATING,
  smallCard,
  trusted,
  until,
  untrusted,
} from '../../../../../test/support/local-engine.ts'
import { ask, logProbsOf, OPEN_TURN } from '../../../../../test/support/reads.ts'
import type { TracedStage } from '../../../../lib/traced-stage.ts'
import type { Reading } from '../../../contract/generation.ts'
import type { ImagePart, PromptPart } from '../../../contract/parts.ts'
import type { ReadQuestion, ReadWork } from '../../../contract/work.ts'
import type { WorkTrace } from '../../../contract/work-trace.ts'
import { LocalEngine } from '../../host/local-engine.ts'

/** Room for one chat and hardly more. A cell takes 3 KiB, and the output of the encoder 64 KiB for a picture. */
const CACHES = { prefixCacheBytes: 2 ** 20, encoderCacheBytes: 100 * 2 ** 10 }
const CHAT = [trusted('<|im_start|>user\n'), untrusted('word '.repeat(250)), OPEN_TURN]
const QUESTIONS = [ask('Is it red?', 'Yes', 'No'), ask('Which number is it?', ...'0123456789')]

let engine: LocalEngine
beforeAll(async () => {
  engine = await LocalEngine.start(await smallCard(1024, 4), { seed: 1, ...CACHES })
})
afterAll(() => engine?.close())

const { signal } = new AbortController()
const about = (...parts: PromptPart[]) => [trusted('<|im_start|>user\n'), ...parts]

function read(
  prefix: readonly PromptPart[],
  fields: Partial<ReadWork> = {},
  questions: readonly ReadQuestion[] = QUESTIONS,
): Promise<Reading> {
  return engine.read({ organisation: 'test', prefix, questions, isTransient: true, ...fields }, signal)
}

async function chat(prefix: readonly PromptPart[], fields: Partial<ReadWork> & { readonly tokens?: number } = {}) {
  const { tokens = 1, ...rest } = fields
  const branches = [branch({ maxTokens: tokens, sampling: REPEATING })]
  const generation = await engine.generate({ organisation: 'test', prefix, branches, ...rest }, signal)
  await collect(generation)
  return generation.prompts[0]!.cachedTokens
}

/** Has the KV cache release all that ended work holds there, and leaves nothing behind. */
async function takeAllCells(): Promise<void> {
  await until(async () => (await engine.stats()).cachedCells > 0)
  await chat([trusted('<|im_start|>user\n'), untrusted('other '.repeat(480))], {
    organisation: 'other',
    isTransient: true,
    tokens: 500,
  })
  const { retainedCells, retainedSequences } = await engine.stats()
  expect({ retainedCells, retainedSequences }).toEqual({ retainedCells: 0, retainedSequences: 0 })
}

async function look(count: number, fields: Partial<ReadWork> = {}): Promise<void> {
  for (let look = 0; look < count; look++) await logProbsOf(await read(about(untrusted(`${look} `.repeat(40))), fields))
}

test('a hundred transient reads leave the prefix of a chat in the cache, and others do not', async () => {
  expect(await chat(CHAT)).toBe(0)
  await takeAllCells()
  const { cachedCells, cachedSequences, prefixHits, prefixMisses } = await engine.stats()
  await look(100)
  const unchanged = { cachedCells, cachedSequences, prefixHits, prefixMisses, retainedCells: 0 }
  expect(await engine.stats()).toMatchObject(unchanged)
  expect(await chat(CHAT)).toBeGreaterThan(250)
  await takeAllCells()
  await look(20, { isTransient: false })
  expect(await chat(CHAT)).toBe(0)
})

test('a transient read has the numbers of any other, shares its prefix among its questions, and keeps nothing', async () => {
  const prefix = about(picture(256, 256), untrusted('Look. '))
  const questions = [...QUESTIONS, { suffix: [picture(192, 256, 3), OPEN_TURN], replies: ['Yes', 'No'] }]
  const [shared, ...own] = await Promise.all(
    [prefix, ...questions.map(({ suffix }) => suffix)].map((parts) => countTokens(engine, parts)),
  )
  const before = (await engine.stats()).prefilledTokens
  const first = await read(prefix, {}, questions)
  const found = await logProbsOf(first)
  const computed = (await engine.stats()).prefilledTokens - before
  expect(computed).toBe(own.reduce((sum, tokens) => sum + tokens, shared!))
  expect(first.prompts[0]!.cachedTokens).toBe(0)
  const second = await read(prefix, { isTransient: false }, questions)
  expect(await logProbsOf(second)).toEqual(found)
  expect(second.prompts[0]!.cachedTokens).toBe(0)
  // What another has left is used.
  const third = await read(prefix, {}, questions)
  expect(await logProbsOf(third)).toEqual(found)
  expect(third.prompts[0]!.cachedTokens).toBe(shared)
})

test('a prefix that is not only of transient reads is kept', async () => {
  const prefix = about(untrusted('both '.repeat(60)))
  const readings = [await read(prefix), await read(prefix, { isTransient: false }), await read(prefix)]
  await Promise.all(readings.map(logProbsOf))
  const again = await read(prefix, { isTransient: false })
  expect(again.prompts[0]!.cachedTokens).toBeGreaterThan(60)
  await logProbsOf(again)
})

test('the pictures of transient reads push no others out of the encoder cache, and are found there', async () => {
  const encodes = async (work: (trace: WorkTrace) => Promise<unknown>) => {
    let encoded = 0
    const trace = { ...SILENT, encoded: () => encoded++ }
    await work(trace)
    return encoded
  }
  let asked = 0
  const chatAbout = (part: ImagePart) =>
    encodes((trace) => chat([trusted('<|im_start|>user\n'), untrusted(`${++asked}: `), part, OPEN_TURN], { trace }))
  const lookAt = (part: ImagePart, isTransient: boolean) =>
    encodes(async (trace) =>
      logProbsOf(await read([trusted('<|im_start|>user\n'), untrusted(`${++asked}: `), part], { trace, isTransient })),
    )
  const shown = picture(256, 256, 50)
  expect(await chatAbout(shown)).toBeGreaterThan(0)
  for (const seed of [51, 52, 53]) expect(await lookAt(picture(256, 256, seed), true)).toBeGreaterThan(0)
  expect([await chatAbout(shown), await lookAt(shown, true), await chatAbout(shown)]).toEqual([0, 0, 0])
  await lookAt(picture(256, 256, 54), false)
  expect(await chatAbout(shown)).toBeGreaterThan(0)
})

const SILENT = {
  admitted() {},
  started() {},
  asked: (): TracedStage => ({ headers: {}, end() {} }),
  spoke() {},
  settled() {},
  ended() {},
}
