import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { branch, REPEATING, trusted, untrusted } from '../../../../test/support/local-engine.ts'
import { shippedSettings } from '../../../../test/support/shipped-settings.ts'
import { loadSilenceLimit, silenceLimit } from '../heartbeat.ts'
import { loadNativeLibraries } from '../native/libraries.ts'
import { locateNativeLibraries } from '../native/native-paths.ts'
import type { FromEngine } from '../protocol.ts'
import { LoadedModel } from '../scheduler/loaded-model.ts'
import { Scheduler } from '../scheduler/scheduler.ts'
import { calibrate } from './calibration.ts'
import { warmUp } from './warm-up.ts'

/** A model of 2B on two cores: the shipped model, by a clock on which its native calls take as long as those would. */
const STEP_MS = 300
const ROW_MS = 30
const ENCODE_MS = 25_000
/** Limits with a token count that is not a square. */
const IMAGE = { pixelsPerToken: 32, minTokens: 200, maxTokens: 200 }

let loaded: LoadedModel
let clock = 0
let encoded = 0
/** Durations of the native calls. */
let calls: number[] = []

function pass(ms: number): void {
  clock += ms
  calls.push(ms)
}

beforeAll(async () => {
  const libraries = loadNativeLibraries(locateNativeLibraries())
  const { llama } = libraries
  const mtmd = libraries.mtmd!
  const decode: typeof llama.decode = (context, batch) => {
    pass(STEP_MS + ROW_MS * batch.n_tokens)
    return llama.decode(context, batch)
  }
  const encode: typeof mtmd.encoder_run = (encoder, chunk, _ms, ...output) => {
    pass(ENCODE_MS)
    encoded++
    return mtmd.encoder_run(encoder, chunk, Number.POSITIVE_INFINITY, ...output)
  }
  loaded = new LoadedModel(
    { ...libraries, llama: { ...llama, decode }, mtmd: { ...mtmd, encoder_run: encode } },
    await shippedSettings({
      encoder: true,
      cells: 4096,
      maxSequences: 64,
      image: IMAGE,
      prefixCacheBytes: 2 ** 20,
      encoderCacheBytes: 2 ** 20,
    }),
  )
})

afterAll(() => loaded?.close())
beforeEach(() => {
  calls = []
  vi.spyOn(performance, 'now').mockImplementation(() => clock)
})
afterEach(() => vi.restoreAllMocks())

test('is calibrated in some seconds', () => {
  const started = clock
  const splitter = calibrate(loaded)
  expect(clock - started).toBeLessThan(10_000)
  expect(splitter.roundMs(1)).toBeCloseTo(STEP_MS + ROW_MS)
  expect(splitter.rowMs).toBeCloseTo((STEP_MS + 64 * ROW_MS) / 64)
  // Rows together are cheaper than rows apart, also where that was not measured.
  expect(splitter.firstOf(33)).toBe(33)
})

test('a row count that another program slowed down once is tried again', () => {
  const { batch } = loaded.context
  let slow = 1
  vi.spyOn(loaded.context, 'decodeBatch').mockImplementation(() => {
    clock += 20 + batch.length
    if (batch.length === 16 && slow-- > 0) clock += 40
    batch.clear()
  })
  const splitter = calibrate(loaded)
  expect(slow).toBeLessThan(0)
  expect(splitter.firstOf(16)).toBe(16)
  expect(splitter.batchMs(16)).toBeCloseTo(36)
})

test('a model whose steps take longer still is measured as far as the time goes', () => {
  const decode = vi.spyOn(loaded.context, 'decodeBatch').mockImplementation(() => {
    clock += 3000 * loaded.context.batch.length
    loaded.context.batch.clear()
  })
  const started = clock
  const splitter = calibrate(loaded)
  expect(clock - started).toBeLessThan(20_000)
  expect(decode.mock.calls.length).toBe(2)
  expect(splitter.rowMs).toBeCloseTo(3000)
})

test('warms up with every encoder, shows progress, and does not count as hung', async () => {
  const settings = await shippedSettings({ encoder: true, image: IMAGE })
  const started = clock
  const signs = [started]
  const { longestStepMs, longestEncodeMs } = warmUp(loaded, settings, () => signs.push(clock))
  signs.push(clock)
  // A second of sound, and an image.
  expect(encoded).toBe(2)
  expect(clock - started).toBeLessThan(2 * ENCODE_MS + 40_000)
  const longest = Math.max(...calls)
  expect(longest).toBe(ENCODE_MS)
  expect(longestEncodeMs).toBeGreaterThanOrEqual(longest)
  const silences = signs.slice(1).map((sign, index) => sign - signs[index]!)
  expect(Math.max(...silences)).toBeLessThan(ENCODE_MS + 5000)
  expect(Math.max(...silences)).toBeLessThan(loadSilenceLimit(0) / 2)
  expect(silenceLimit(longestStepMs, longestEncodeMs)).toBeGreaterThanOrEqual(8 * longest)
  expect([loaded.kv.usedCells, loaded.kv.usedSequences]).toEqual([0, 0])
})

test('a stream continues beside a long prompt, and no call takes long', () => {
  const sent: FromEngine[] = []
  const splitter = calibrate(loaded)
  const settings = { maxWaiting: 10, prefixCacheBytes: 2 ** 20, speculation: false, seed: 1 }
  const scheduler = new Scheduler(loaded, splitter, settings, (message) => sent.push(message))
  const ask = (id: number, words: number, maxTokens: number) =>
    scheduler.submit(id, {
      organisation: `${id}`,
      prefix: [trusted('<|im_start|>user\n'), untrusted('word '.repeat(words)), trusted('<|im_start|>assistant\n')],
      branches: [branch({ maxTokens, sampling: REPEATING })],
    })
  const tokensOf = (id: number) =>
    sent
      .flatMap((message) => (message.type === 'events' ? message.requests : []))
      .flatMap((request) => (request.id === id ? request.events : []))
      .filter(({ type }) => type === 'text').length
  ask(1, 3, 300)
  while (tokensOf(1) === 0) scheduler.step()
  calls = []
  ask(2, 500, 1)
  let last = clock
  let longest = 0
  for (let tokens = tokensOf(1); tokensOf(2) === 0; ) {
    scheduler.step()
    if (tokensOf(1) === tokens) continue
    tokens = tokensOf(1)
    longest = Math.max(longest, clock - last)
    last = clock
  }
  // The prompt has 500 tokens, which take more than 15 s.
  expect(calls.reduce((sum, ms) => sum + ms)).toBeGreaterThan(15_000)
  expect(longest).toBeLessThan(3000)
  expect(Math.max(...calls)).toBeLessThan(3000)
  scheduler.abort(1)
  while (scheduler.step());
  expect(scheduler.stats).toMatchObject({ usedCells: 0, usedSequences: 0 })
})
