import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { branch, REPEATING, trusted, untrusted } from '../../../../../test/support/local-engine.ts'
import { shippedSettings } from '../../../../../test/support/shipped-settings.ts'
import type { EngineEvent } from '../../../contract/generation.ts'
import type { PromptPart } from '../../../contract/parts.ts'
import type { Branch } from '../../../contract/work.ts'
import { loadNativeLibraries } from '../../native/libraries.ts'
import { locateNativeLibraries } from '../../native/native-paths.ts'
import type { FromEngine } from '../../protocol.ts'
import { BatchSplitter } from '../batch/batch-splitter.ts'
import { LoadedModel } from '../loaded-model.ts'
import { Scheduler } from '../scheduler.ts'

/**
 * Retained sequences and their copies, step by step. By the test's clock, a copy takes longer than the copy time of a step;
 * and a cell seems to take 16 times the memory, so that short prompts have several pieces.
 */

const MIB = 2 ** 20
const COPY_MS = 80
const CELL_FACTOR = 16

let loaded: LoadedModel
let clock = 0
/** Sizes of the copies that were made. */
let copies: number[] = []

const prompt = (words: number): PromptPart[] => [
  trusted('<|im_start|>user\n'),
  untrusted('one two three four '.repeat(words / 4)),
  trusted('<|im_end|>\n<|im_start|>assistant\n'),
]

beforeEach(async () => {
  const libraries = loadNativeLibraries(locateNativeLibraries())
  const { llama } = libraries
  const copy: typeof llama.state_seq_get_data = (context, data, size, sequence) => {
    copies.push(size)
    clock += COPY_MS
    return llama.state_seq_get_data(context, data, size, sequence)
  }
  loaded = new LoadedModel(
    { ...libraries, llama: { ...llama, state_seq_get_data: copy } },
    await shippedSettings({ threads: 2 }),
  )
})

afterEach(async () => {
  vi.restoreAllMocks()
  await loaded.close()
})

function createScheduler(prefixCacheBytes: number) {
  const { context } = loaded
  const sequenceBytes = context.sequenceBytes.bind(context)
  vi.spyOn(context, 'sequenceBytes').mockImplementation((sequence) => CELL_FACTOR * sequenceBytes(sequence))
  const sent: FromEngine[] = []
  const splitter = new BatchSplitter([{ rows: 1, ms: 0.01 }], 4, loaded.context.batch.capacity)
  const settings = { maxWaiting: 10, prefixCacheBytes, speculation: false, seed: 1 }
  const scheduler = new Scheduler(loaded, splitter, settings, (message) => sent.push(message))
  copies = []
  vi.spyOn(performance, 'now').mockImplementation(() => clock)
  const eventsOf = (id: number): EngineEvent[] =>
    sent
      .flatMap((message) => (message.type === 'events' ? message.requests : []))
      .flatMap((request) => (request.id === id ? request.events : []))
  const ask = (id: number, words: number, maxTokens: number) =>
    scheduler.submit(id, {
      organisation: 'test',
      prefix: prompt(words),
      branches: [branch({ maxTokens, sampling: REPEATING })],
    })
  const finish = (id: number) => {
    while (!eventsOf(id).some(({ type }) => type === 'finish')) scheduler.step()
  }
  const cachedTokensOf = (id: number) =>
    sent.flatMap((message) => (message.type === 'admitted' && message.id === id ? message.prompts : []))[0]
      ?.cachedTokens
  return { scheduler, eventsOf, ask, finish, cachedTokensOf }
}

const textOf = (events: readonly EngineEvent[]) =>
  events.map((event) => (event.type === 'text' ? event.text : '')).join('')

test('ended work stays in the KV cache, and a prompt with the same prefix copies nothing', () => {
  const { scheduler, eventsOf, ask, finish, cachedTokensOf } = createScheduler(64 * MIB)
  ask(1, 4, 400)
  scheduler.step()
  ask(2, 300, 4)
  finish(2)
  const { retainedCells, usedCells, prefilledTokens } = scheduler.stats
  expect(retainedCells).toBeGreaterThan(300)
  expect(usedCells).toBeLessThan(100)
  expect(loaded.kv.usedCells).toBe(retainedCells + usedCells)
  ask(3, 300, 4)
  expect(cachedTokensOf(3)).toBeGreaterThan(300)
  finish(3)
  expect(textOf(eventsOf(3))).toBe(textOf(eventsOf(2)))
  // Only the last token of its prompt was computed, and that is decoded.
  expect(scheduler.stats.prefilledTokens).toBe(prefilledTokens)
  expect(copies).toEqual([])
  // The same again is retained once.
  expect(scheduler.stats).toMatchObject({ retainedSequences: 1, retainedCells })
  scheduler.abort(1)
  while (scheduler.step());
})

test('completions that other work may continue stay for some steps, and are not copied', () => {
  const { scheduler, eventsOf, ask, finish, cachedTokensOf } = createScheduler(64 * MIB)
  const suffixes = ['red', 'blue'].map((name) => [untrusted(`Where is the ${name} one? `.repeat(4))])
  const branches = suffixes.map((suffix) => branch({ suffix, maxTokens: 8, sampling: REPEATING, isContinued: true }))
  const submit = (id: number, prefix: readonly PromptPart[], asked: readonly Branch[]) =>
    scheduler.submit(id, { organisation: 'test', prefix, branches: asked })
  const askBoth = (id: number) => {
    submit(id, prompt(100), branches)
    while (eventsOf(id).filter(({ type }) => type === 'finish').length < 2) scheduler.step()
  }
  askBoth(1)
  const { prefilledTokens, retainedSequences } = scheduler.stats
  expect(retainedSequences).toBe(3)
  for (const [index, suffix] of suffixes.entries()) {
    const text = textOf(eventsOf(1).filter((event) => event.branch === index))
    submit(10 + index, [...prompt(100), ...suffix, trusted(text)], [branch({ maxTokens: 4, sampling: REPEATING })])
    expect(cachedTokensOf(10 + index)).toBeGreaterThan(130)
    finish(10 + index)
  }
  expect(scheduler.stats.prefilledTokens - prefilledTokens).toBeLessThan(20)
  while (scheduler.step());
  const before = scheduler.stats
  const { length } = copies
  askBoth(2)
  expect(scheduler.stats.retainedSequences).toBe(before.retainedSequences + 2)
  // Steps of other work, whose prompt is too short to be kept.
  ask(3, 4, 100)
  finish(3)
  expect(scheduler.stats.retainedSequences).toBeLessThanOrEqual(before.retainedSequences)
  expect(scheduler.stats.cachedCells).toBe(before.cachedCells)
  expect(copies).toHaveLength(length)
  while (scheduler.step());
})

test('it is copied after a while, piece by piece beside a stream, and released when it has cost enough', () => {
  const { scheduler, eventsOf, ask, finish, cachedTokensOf } = createScheduler(64 * MIB)
  ask(1, 4, 400)
  scheduler.step()
  ask(2, 300, 4)
  finish(2)
  const { retainedCells } = scheduler.stats
  while (scheduler.stats.retainedCells > 0) {
    const [before, streamed] = [clock, eventsOf(1).length]
    scheduler.step()
    expect(clock - before).toBeLessThanOrEqual(COPY_MS)
    expect(eventsOf(1).length).toBeGreaterThan(streamed)
  }
  expect(copies).toHaveLength(2)
  expect(Math.max(...copies)).toBeLessThan((8.1 * MIB) / CELL_FACTOR)
  expect(scheduler.stats.cachedCells).toBe(retainedCells)
  expect(loaded.kv.usedCells).toBe(scheduler.stats.usedCells)
  ask(3, 300, 4)
  expect(cachedTokensOf(3)).toBeGreaterThan(300)
  finish(3)
  expect(textOf(eventsOf(3))).toBe(textOf(eventsOf(2)))
  scheduler.abort(1)
  while (scheduler.step());
})

test('an idle engine copies what it retains, and retains it', () => {
  const { scheduler, ask, finish } = createScheduler(64 * MIB)
  ask(1, 300, 4)
  finish(1)
  while (scheduler.step());
  const { cachedCells, retainedCells, usedCells } = scheduler.stats
  expect([cachedCells, usedCells, copies.length]).toEqual([retainedCells, 0, 2])
})

test('on a device that computes a row as fast as it is copied, others do not wait for copies once that is known', () => {
  Object.assign(loaded, { compute: { ...loaded.compute, weighsCopies: true } })
  const { scheduler, ask, finish, cachedTokensOf } = createScheduler(64 * MIB)
  ask(1, 300, 4)
  finish(1)
  while (scheduler.step());
  expect(copies).toHaveLength(2)
  ask(2, 4, 400)
  scheduler.step()
  ask(3, 340, 4)
  finish(3)
  for (let i = 0; i < 200; i++) scheduler.step()
  expect(copies).toHaveLength(2)
  ask(4, 340, 4)
  expect(cachedTokensOf(4)).toBeGreaterThan(340)
  scheduler.abort(2)
  scheduler.abort(4)
  while (scheduler.step());
  expect(copies.length).toBeGreaterThan(2)
})

test('when work needs the cells, as much is copied as fits into a step', () => {
  const { scheduler, ask, finish, cachedTokensOf } = createScheduler(64 * MIB)
  ask(1, 4, 500)
  scheduler.step()
  ask(2, 300, 4)
  finish(2)
  // The running sequence takes more cells than are free beside retained ones.
  vi.spyOn(loaded.kv, 'freeCells', 'get').mockReturnValueOnce(0)
  scheduler.step()
  expect(copies).toHaveLength(1)
  expect(loaded.kv.usedCells).toBeLessThan(100)
  expect(scheduler.stats).toMatchObject({ preemptions: 0, retainedCells: 0 })
  ask(3, 300, 4)
  expect(cachedTokensOf(3)).toBeGreaterThan(150)
  expect(cachedTokensOf(3)).toBeLessThan(200)
  scheduler.abort(1)
  scheduler.abort(3)
  while (scheduler.step());
})

test('a sequence that is larger than the cache is not copied, but stays in the KV cache', () => {
  const { scheduler, ask, finish, cachedTokensOf } = createScheduler(4 * MIB)
  ask(1, 40, 4)
  finish(1)
  ask(2, 160, 4)
  finish(2)
  while (scheduler.step());
  expect(copies).toHaveLength(1)
  expect(scheduler.stats.cachedCells).toBeGreaterThan(40)
  ask(3, 160, 4)
  expect(cachedTokensOf(3)).toBeGreaterThan(160)
  finish(3)
  while (scheduler.step());
})

test('large work gets all cells without running work, regardless of retained sequences', () => {
  const { scheduler, ask, finish } = createScheduler(64 * MIB)
  for (const [id, words] of [100, 200, 300, 400, 500].entries()) {
    ask(id, words, 2)
    finish(id)
  }
  expect(scheduler.stats.retainedCells).toBeGreaterThan(500)
  ask(10, 1700, 200)
  finish(10)
  expect(scheduler.stats).toMatchObject({ preemptions: 0, running: 0, usedCells: 0 })
  while (scheduler.step());
})
