import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { branch, CARD, REPEATING, trusted, untrusted } from '../../../../test/support/local-engine.ts'
import { loadCard } from '../../../models/card.ts'
import type { EngineEvent, PromptPart } from '../../engine.ts'
import { loadNativeLibraries } from '../native/libraries.ts'
import { locateNativeLibraries } from '../native/native-paths.ts'
import type { FromEngine } from '../protocol.ts'
import { BatchSplitter } from './batch-splitter.ts'
import { LoadedModel } from './loaded-model.ts'
import { Scheduler } from './scheduler.ts'

/**
 * Copies of ended sequences beside the steps of others, step by step. By the test's clock, a copy takes longer than
 * copies may in a step; and a cell seems to take 16 times the memory, so that short prompts have several pieces.
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

beforeAll(async () => {
  const card = await loadCard(CARD)
  const libraries = loadNativeLibraries(locateNativeLibraries())
  const { llama } = libraries
  const copy: typeof llama.state_seq_get_data = (context, data, size, sequence) => {
    copies.push(size)
    clock += COPY_MS
    return llama.state_seq_get_data(context, data, size, sequence)
  }
  loaded = new LoadedModel(
    { ...libraries, llama: { ...llama, state_seq_get_data: copy } },
    {
      model: `${card.directory}/${card.engine.model}`,
      projector: null,
      cells: 2048,
      maxSequences: 4,
      printedTokens: [],
      repetition: null,
      image: null,
      threads: 2,
      maxWaiting: 10,
      prefixCacheBytes: 0,
      encoderCacheBytes: 0,
      seed: 1,
    },
  )
})

afterAll(() => loaded?.close())
afterEach(() => vi.restoreAllMocks())

function createScheduler(prefixCacheBytes: number) {
  const { context } = loaded
  const sequenceBytes = context.sequenceBytes.bind(context)
  vi.spyOn(context, 'sequenceBytes').mockImplementation((sequence) => CELL_FACTOR * sequenceBytes(sequence))
  const sent: FromEngine[] = []
  const splitter = new BatchSplitter([{ rows: 1, ms: 0.01 }], 4, loaded.context.batch.capacity)
  const settings = { maxWaiting: 10, prefixCacheBytes, seed: 1 }
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

test('a long sequence is copied beside the steps of a stream, piece by piece, and found meanwhile and afterwards', () => {
  const { scheduler, eventsOf, ask, finish, cachedTokensOf } = createScheduler(64 * MIB)
  ask(1, 4, 100)
  scheduler.step()
  ask(2, 300, 4)
  finish(2)
  // Its first piece was copied at once, and its cells are not needed.
  expect(copies).toHaveLength(1)
  expect(loaded.kv.usedCells).toBeGreaterThan(300)
  expect(scheduler.stats.usedCells).toBeLessThan(100)
  ask(3, 300, 4)
  const promptTokens = scheduler.stats.prefilledTokens
  expect(cachedTokensOf(3)).toBeGreaterThan(300)
  finish(3)
  while (copies.length < 2) {
    const [before, streamed] = [clock, eventsOf(1).length]
    scheduler.step()
    expect(clock - before).toBeLessThanOrEqual(COPY_MS)
    expect(eventsOf(1).length).toBeGreaterThan(streamed)
  }
  expect(Math.max(...copies)).toBeLessThan((8.1 * MIB) / CELL_FACTOR)
  scheduler.abort(1)
  while (scheduler.step());
  expect([loaded.kv.usedCells, loaded.kv.usedSequences]).toEqual([0, 0])
  ask(4, 300, 4)
  finish(4)
  expect(cachedTokensOf(4)).toBe(cachedTokensOf(3))
  expect(textOf(eventsOf(4))).toBe(textOf(eventsOf(2)))
  // Only the last token of each was computed, and it is decoded.
  expect(scheduler.stats.prefilledTokens).toBe(promptTokens)
  while (scheduler.step());
})

test('cells of a copy are given up when work needs them, and what was copied stays', () => {
  const { scheduler, ask, finish, cachedTokensOf } = createScheduler(64 * MIB)
  ask(1, 4, 500)
  scheduler.step()
  ask(2, 300, 4)
  finish(2)
  expect(copies).toHaveLength(1)
  vi.spyOn(performance, 'now').mockReturnValue(clock)
  // The one that runs takes more cells than are free beside the copy.
  vi.spyOn(loaded.kv, 'freeCells', 'get').mockReturnValueOnce(0)
  scheduler.step()
  expect(loaded.kv.usedCells).toBeLessThan(100)
  expect(scheduler.stats.preemptions).toBe(0)
  ask(3, 300, 4)
  expect(cachedTokensOf(3)).toBeGreaterThan(150)
  expect(cachedTokensOf(3)).toBeLessThan(200)
  scheduler.abort(1)
  scheduler.abort(3)
  while (scheduler.step());
})

test('a sequence that is larger than the cache is not copied', () => {
  const { scheduler, ask, finish } = createScheduler(4 * MIB)
  ask(1, 40, 4)
  finish(1)
  ask(2, 160, 4)
  finish(2)
  while (scheduler.step());
  expect(copies).toHaveLength(1)
  expect(scheduler.stats.cachedCells).toBeGreaterThan(40)
})
