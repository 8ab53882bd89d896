import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { branch, REPEATING, trusted, untrusted } from '../../../../test/support/local-engine.ts'
import { shippedSettings } from '../../../../test/support/shipped-settings.ts'
import type { EngineEvent } from '../../contract/generation.ts'
import type { PromptPart } from '../../contract/parts.ts'
import type { Priority } from '../../contract/priority.ts'
import type { Branch } from '../../contract/work.ts'
import { loadNativeLibraries } from '../native/libraries.ts'
import { locateNativeLibraries } from '../native/native-paths.ts'
import type { FromEngine } from '../protocol.ts'
import { BatchSplitter } from './batch/batch-splitter.ts'
import { LoadedModel } from './loaded-model.ts'
import { Scheduler } from './scheduler.ts'

/** Drives a scheduler as the engine process does, but step by step. */

const ORGANISATION = 'test'
const prompt = (words: number): PromptPart[] => [
  trusted('<|im_start|>user\n'),
  untrusted('word '.repeat(words)),
  trusted('<|im_end|>\n<|im_start|>assistant\n'),
]
const answer = (maxTokens: number, fields: Partial<Branch> = {}) =>
  branch({ maxTokens, sampling: REPEATING, ...fields })

let loaded: LoadedModel
let failsNext = false

beforeAll(async () => {
  const libraries = loadNativeLibraries(locateNativeLibraries())
  const { llama } = libraries
  const decode: typeof llama.decode = (context, batch) => {
    if (!failsNext) return llama.decode(context, batch)
    failsNext = false
    return -3
  }
  loaded = new LoadedModel({ ...libraries, llama: { ...llama, decode } }, await shippedSettings())
})

afterAll(() => loaded?.close())
afterEach(() => vi.restoreAllMocks())

function createScheduler(): { readonly scheduler: Scheduler; readonly sent: FromEngine[] } {
  const sent: FromEngine[] = []
  const splitter = new BatchSplitter([{ rows: 1, ms: 1 }], 4, loaded.context.batch.capacity)
  const settings = { maxWaiting: 10, prefixCacheBytes: 0, speculation: false, seed: 1 }
  return { scheduler: new Scheduler(loaded, splitter, settings, (message) => sent.push(message)), sent }
}

function eventsOf(sent: readonly FromEngine[], id: number): EngineEvent[] {
  return sent
    .flatMap((message) => (message.type === 'events' ? message.requests : []))
    .flatMap((request) => (request.id === id ? request.events : []))
}

const textOf = (events: readonly EngineEvent[]) =>
  events.map((event) => (event.type === 'text' ? event.text : '')).join('')

test('a failed step fails the requests that it computes, and no others', () => {
  const { scheduler, sent } = createScheduler()
  for (const id of [1, 2, 3]) {
    scheduler.submit(id, {
      organisation: ORGANISATION,
      prefix: prompt(id),
      branches: [answer(8, { n: id < 3 ? 2 : 1 })],
    })
  }
  scheduler.step()
  expect(scheduler.stats).toMatchObject({ running: 4, waiting: 1 })
  failsNext = true
  scheduler.step()
  expect(sent.flatMap((message) => (message.type === 'error' ? [message.id] : []))).toEqual([1, 2])
  while (scheduler.step());
  expect(eventsOf(sent, 3).at(-1)).toMatchObject({ type: 'finish', completionTokens: 8 })
  expect(scheduler.stats).toMatchObject({ running: 0, waiting: 0, usedCells: 0, usedSequences: 0 })
})

test('text may be held, but a first token and an end are not', () => {
  const work = { organisation: ORGANISATION, prefix: prompt(5), branches: [answer(20)] }
  const atOnce = createScheduler()
  atOnce.scheduler.submit(1, work)
  while (atOnce.scheduler.step());
  // While the clock stands still, all text is held as far as allowed.
  vi.spyOn(performance, 'now').mockReturnValue(1000)
  const held = createScheduler()
  held.scheduler.submit(1, work)
  while (held.scheduler.step(true));
  expect(held.sent.map(({ type }) => type)).toEqual(['admitted', 'events', 'events'])
  const [first, ...others] = eventsOf(held.sent, 1)
  expect(first).toMatchObject({ type: 'text', tokens: 1 })
  expect(others).toMatchObject([
    { type: 'text', tokens: 19 },
    { type: 'finish', completionTokens: 20 },
  ])
  expect(textOf(eventsOf(held.sent, 1))).toBe(textOf(eventsOf(atOnce.sent, 1)))
  expect(atOnce.sent.length).toBeGreaterThan(10)
})

test('held text is sent once, regardless of other messages, and not after an abort', () => {
  const { scheduler, sent } = createScheduler()
  vi.spyOn(performance, 'now').mockReturnValue(1000)
  scheduler.submit(1, { organisation: ORGANISATION, prefix: prompt(5), branches: [answer(12)] })
  scheduler.submit(2, { organisation: ORGANISATION, prefix: prompt(6), branches: [answer(100)] })
  for (let step = 0; step < 16; step++) scheduler.step(step % 3 !== 2)
  const finishes = sent
    .flatMap((message) => (message.type === 'events' ? message.requests : []))
    .filter(({ last }) => last)
  expect(finishes.map(({ id }) => id)).toEqual([1])
  const tokens = eventsOf(sent, 1).reduce((sum, event) => sum + (event.type === 'text' ? event.tokens : 0), 0)
  expect(tokens).toBe(12)
  scheduler.step(true)
  scheduler.abort(2)
  const before = sent.length
  expect(scheduler.step()).toBe(false)
  expect([sent.length, scheduler.stats.usedCells]).toEqual([before, 0])
})

describe('work in the background', () => {
  const work = (words: number, tokens: number, fields: { n?: number; priority?: Priority } = {}) => {
    const { n = 1, priority = 'background' } = fields
    return { organisation: ORGANISATION, prefix: prompt(words), branches: [answer(tokens, { n })], priority }
  }
  const tokensOf = (sent: readonly FromEngine[], id: number) =>
    eventsOf(sent, id).reduce((sum, event) => sum + (event.type === 'text' ? event.tokens : 0), 0)

  test('yields its places to other work, and has the same text in the end', () => {
    const alone = createScheduler()
    alone.scheduler.submit(1, work(5, 30))
    while (alone.scheduler.step());

    const { scheduler, sent } = createScheduler()
    // All four places are taken.
    scheduler.submit(1, work(5, 30))
    scheduler.submit(2, work(6, 30, { n: 3 }))
    for (let step = 0; step < 10; step++) scheduler.step()
    expect(scheduler.stats).toMatchObject({ running: 4, waiting: 0 })
    scheduler.submit(3, work(7, 8, { n: 2, priority: 'interactive' }))
    scheduler.step()
    expect(scheduler.stats).toMatchObject({ running: 4, waiting: 0, preemptions: 2 })
    while (scheduler.step());
    expect(eventsOf(sent, 3).filter(({ type }) => type === 'finish')).toHaveLength(2)
    expect(textOf(eventsOf(sent, 1))).toBe(textOf(eventsOf(alone.sent, 1)))
    expect(eventsOf(sent, 2).filter(({ type }) => type === 'finish')).toHaveLength(3)
    expect(scheduler.stats).toMatchObject({ running: 0, waiting: 0, usedCells: 0, usedSequences: 0 })
  })

  test('yields its cells to other work, which no preemption delays', () => {
    const { scheduler, sent } = createScheduler()
    scheduler.submit(1, work(900, 60))
    scheduler.submit(2, work(901, 60))
    for (let step = 0; step < 40; step++) scheduler.step()
    expect(scheduler.stats.running).toBe(2)
    // More cells than are left.
    scheduler.submit(3, work(902, 4, { priority: 'interactive' }))
    scheduler.submit(4, work(3, 4, { priority: 'interactive' }))
    for (let step = 0; tokensOf(sent, 3) < 4 || tokensOf(sent, 4) < 4; step++) {
      expect(step).toBeLessThan(200)
      scheduler.step()
    }
    while (scheduler.step());
    expect([tokensOf(sent, 1), tokensOf(sent, 2)]).toEqual([60, 60])
  })

  test('gets a small part of the time while other work runs, and all of it afterwards', () => {
    // Every reading of the clock advances it by a millisecond, so that steps take about equally long.
    let now = 0
    vi.spyOn(performance, 'now').mockImplementation(() => now++)
    const { scheduler, sent } = createScheduler()
    scheduler.submit(1, work(3, 40))
    scheduler.submit(2, work(4, 160, { priority: 'interactive' }))
    for (let step = 0; step < 150; step++) scheduler.step()
    const [background, other] = [tokensOf(sent, 1), tokensOf(sent, 2)]
    expect(background / (background + other)).toBeGreaterThan(0.01)
    expect(background / (background + other)).toBeLessThan(0.06)
    while (scheduler.step());
    expect(tokensOf(sent, 1)).toBe(40)
  })
})
