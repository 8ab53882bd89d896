import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { branch, picture, REPEATING, trusted, untrusted } from '../../../../test/support/local-engine.ts'
import { shippedSettings } from '../../../../test/support/shipped-settings.ts'
import type { ImagePart } from '../../contract/parts.ts'
import type { Work } from '../../contract/work.ts'
import type { FailureError } from '../failure.ts'
import { loadNativeLibraries } from '../native/libraries.ts'
import { locateNativeLibraries } from '../native/native-paths.ts'
import type { FromEngine } from '../protocol.ts'
import { WHOLE } from '../tokens/encoder-turns.ts'
import type { MediaTokens, TokenisedPrompt } from '../tokens/prompt-tokens.ts'
import { BatchSplitter } from './batch/batch-splitter.ts'
import { LoadedModel } from './loaded-model.ts'
import { Scheduler } from './scheduler.ts'

/** Each call of the encoder pauses as soon as it can. */

const SIZE = 256
const AT_ONCE = { ms: 0, priority: 'interactive' } as const

let loaded: LoadedModel
/** The events in order: encoder calls, and tokens of requests by their ids. */
let log: string[] = []
let hurries = false

beforeAll(async () => {
  const libraries = loadNativeLibraries(locateNativeLibraries())
  const mtmd = libraries.mtmd!
  const run: typeof mtmd.encoder_run = (encoder, chunk, ms, ...output) => {
    const code = mtmd.encoder_run(encoder, chunk, hurries ? ms : 0, ...output)
    log.push(code === 0 ? 'encoded' : 'paused')
    return code
  }
  loaded = new LoadedModel(
    { ...libraries, mtmd: { ...mtmd, encoder_run: run } },
    await shippedSettings({ encoder: true, maxSequences: 20 }),
  )
})

afterAll(() => loaded?.close())
beforeEach(() => {
  log = []
  hurries = false
})

const image = (seed: number): ImagePart => picture(SIZE, SIZE, seed)
const read = (seed: number): TokenisedPrompt => loaded.reader.read([image(seed)], 'test', 'messages')
const mediaOf = ({ chunks }: TokenisedPrompt): MediaTokens => {
  const media = chunks.find(({ type }) => type === 'media')
  if (media?.type !== 'media') throw new Error('Expected media.')
  return media
}

/** Its embeddings, encoded without a pause. */
function whole(seed: number): Float32Array {
  hurries = true
  const prompt = read(seed)
  const embeddings = mediaOf(prompt).encode(WHOLE)!
  prompt.close()
  hurries = false
  return embeddings
}

test('an encoder that pauses computes the same, bit for bit', () => {
  const expected = whole(1)
  expect(log).toEqual(['encoded'])
  const prompt = read(1)
  let embeddings: Float32Array | null = null
  while (embeddings === null) embeddings = mediaOf(prompt).encode(AT_ONCE)
  expect(log.filter((entry) => entry === 'paused').length).toBeGreaterThan(3)
  expect(embeddings).toEqual(expected)
  prompt.close()
})

test('two images that take turns are encoded one after the other, and neither twice', () => {
  const expected = [whole(2), whole(3)]
  log = []
  const prompts = [read(2), read(3)]
  const open = new Set(prompts)
  while (open.size > 0) {
    for (const prompt of open) {
      const media = mediaOf(prompt)
      if (media.knownEmbeddings() !== undefined || media.encode(AT_ONCE) !== null) open.delete(prompt)
    }
  }
  expect(log.filter((entry) => entry === 'encoded')).toHaveLength(2)
  expect(prompts.map((prompt) => mediaOf(prompt).knownEmbeddings())).toEqual(expected)
  for (const prompt of prompts) prompt.close()
})

test('an image that is no longer needed is abandoned, and the next one is encoded', () => {
  const expected = whole(5)
  const left = read(4)
  expect(mediaOf(left).encode(AT_ONCE)).toBeNull()
  left.close()
  const prompt = read(5)
  hurries = true
  expect(mediaOf(prompt).encode(WHOLE)).toEqual(expected)
  prompt.close()
})

test('an image of background work yields to one of other work', () => {
  const expected = [whole(6), whole(7)]
  const [background, other] = [read(6), read(7)]
  expect(mediaOf(background).encode({ ms: 0, priority: 'background' })).toBeNull()
  hurries = true
  expect(mediaOf(other).encode(WHOLE)).toEqual(expected[1])
  expect(mediaOf(background).knownEmbeddings()).toBeUndefined()
  expect(mediaOf(background).encode({ ...WHOLE, priority: 'background' })).toEqual(expected[0])
  for (const prompt of [background, other]) prompt.close()
})

test('an image of live work yields once', () => {
  const expected = [whole(9), whole(10)]
  const [live, first, second] = [read(9), read(10), read(11)]
  const turn = { ms: 0, priority: 'live' } as const
  expect(mediaOf(live).encode(turn)).toBeNull()
  hurries = true
  expect(mediaOf(first).encode(WHOLE)).toEqual(expected[1])
  hurries = false
  expect(mediaOf(live).encode(turn)).toBeNull()
  hurries = true
  expect(mediaOf(second).encode({ ms: 60_000, priority: 'interactive' })).toBeNull()
  expect(mediaOf(live).knownEmbeddings()).toEqual(expected[0])
  for (const prompt of [live, first, second]) prompt.close()
})

/** A scheduler whose tokens are logged. */
function createScheduler(maxWaiting = 10, rowMs = 0.01): Scheduler {
  const send = (message: FromEngine) => {
    if (message.type !== 'events') return
    for (const { id, events } of message.requests) for (const { type } of events) if (type === 'text') log.push(`${id}`)
  }
  const splitter = new BatchSplitter([{ rows: 1, ms: rowMs }], 4, loaded.context.batch.capacity)
  const settings = { maxWaiting, prefixCacheBytes: 0, speculation: false, seed: 1 }
  return new Scheduler(loaded, splitter, settings, send)
}

const work = (prefix: Work['prefix'], maxTokens: number): Work => ({
  organisation: 'test',
  prefix: [...prefix, trusted('<|im_end|>\n<|im_start|>assistant\n')],
  branches: [branch({ maxTokens, sampling: REPEATING })],
})

test('others get their tokens while an image is encoded', () => {
  const scheduler = createScheduler()
  scheduler.submit(1, work([untrusted('Write.')], 100))
  while (!log.includes('1')) scheduler.step()
  scheduler.submit(2, work([image(8)], 2))
  log = []
  while (!log.includes('encoded')) scheduler.step()
  const pauses = log.filter((entry) => entry === 'paused').length
  expect(pauses).toBeGreaterThan(3)
  expect(log.filter((entry) => entry === '1').length).toBeGreaterThanOrEqual(pauses)
  while (scheduler.step());
})

test('tokens of transient work wait for its images, and beside other work they do not', () => {
  hurries = true
  /** Prompt tokens that are computed before the first token. */
  const before = (seeds: readonly number[], areTransient: readonly boolean[]) => {
    const scheduler = createScheduler()
    log = []
    for (const [i, seed] of seeds.entries()) {
      scheduler.submit(seed, { ...work([image(seed), untrusted('Write.')], 100), isTransient: areTransient[i]! })
    }
    while (!log.includes(`${seeds[0]}`) && scheduler.step());
    expect(log).toContain(`${seeds[0]}`)
    const { prefilledTokens } = scheduler.stats
    while (scheduler.step());
    return prefilledTokens
  }
  const imageTokens = (SIZE / 32) ** 2
  expect(before([12, 13, 14], [true, true, true])).toBeGreaterThan(3 * imageTokens)
  expect(before([15, 16, 17], [false, true, true])).toBeLessThan(3 * imageTokens)
})

test('turns of the encoder do not make a full queue seem slow', () => {
  const scheduler = createScheduler(4, 1)
  // A look at this clock always takes as long, also on a busy machine.
  let now = 0
  vi.spyOn(performance, 'now').mockImplementation(() => ++now)
  onTestFinished(() => void vi.restoreAllMocks())
  // Twenty run, whose pictures are encoded before any of them is computed, and four wait.
  for (let id = 0; id < 24; id++) {
    scheduler.submit(id, work([image(100 + id)], 1))
    if (id < 20) scheduler.step()
  }
  for (let turn = 0; turn < 140; turn++) scheduler.step()
  expect(log).not.toContain('0')
  const told = toldBy(scheduler)
  expect(told).not.toBeNull()
  while (scheduler.step());
  // It was a hundred times as long as all of them take.
  expect(told!).toBeLessThan(10 * now)
})

/** When a request is told to come back; null if there is room for it. */
function toldBy(scheduler: Scheduler): number | null {
  try {
    scheduler.checkQueue()
    return null
  } catch (error) {
    const { failure } = error as FailureError
    return failure.kind === 'overloaded' ? performance.now() + 1000 * failure.retryAfter : null
  }
}
