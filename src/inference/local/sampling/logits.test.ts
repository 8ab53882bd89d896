import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  branch as branchOf,
  CARD,
  GREEDY,
  picture,
  REPEATING,
  trusted,
  untrusted,
} from '../../../../test/support/local-engine.ts'
import { type LocalModelCard, loadLocalCard } from '../../../models/card.ts'
import type { PromptPart } from '../../contract/parts.ts'
import type { Branch } from '../../contract/work.ts'
import type { Context } from '../native/context.ts'
import { loadNativeLibraries, type NativeLibraries } from '../native/libraries.ts'
import { locateNativeLibraries } from '../native/native-paths.ts'
import type { FromEngine } from '../protocol.ts'
import { BatchSplitter } from '../scheduler/batch/batch-splitter.ts'
import { LoadedModel } from '../scheduler/loaded-model.ts'
import { Scheduler } from '../scheduler/scheduler.ts'
import { DrawingSampler } from './drawing-sampler.ts'

/**
 * The logits of every token must equal those of the same prompt computed alone, on any path. Texts show less: a confident
 * model gives the same answer even if the picture has the wrong position.
 */

/**
 * Batches of other sizes add up in another order; with f16 weights that shows at 0.001 for most logits and at 0.01 for
 * the worst of many thousands. Another prompt is off by far more.
 */
const NOISE = 0.05

let card: LocalModelCard
let libraries: NativeLibraries
/** By completion, in order of the first sampling. */
let recorded: Map<DrawingSampler, Float32Array[]>
let loaded: LoadedModel

beforeAll(async () => {
  card = await loadLocalCard(CARD)
  libraries = loadNativeLibraries(locateNativeLibraries())
  const { sample } = DrawingSampler.prototype
  DrawingSampler.prototype.sample = function (rows, row, allowed) {
    recorded.set(this, [...(recorded.get(this) ?? []), Float32Array.from((rows as Context).logits(row))])
    return sample.call(this, rows, row, allowed)
  }
  loaded = load(2048)
})

afterAll(() => loaded?.close())

function load(cells: number): LoadedModel {
  return new LoadedModel(libraries, {
    model: `${card.directory}/${card.engine.model}`,
    projector: `${card.directory}/${card.engine.projector}`,
    cells,
    maxSequences: 16,
    printedTokens: [],
    repetition: null,
    speculation: false,
    // Small pictures, because the computation does not depend on their size.
    image: { ...card.image!, minTokens: 36 },
    threads: 1,
    maxWaiting: 100,
    prefixCacheBytes: 0,
    encoderCacheBytes: 0,
    seed: 1,
  })
}

/** As greedy sampling, but by the sampler that is recorded here. */
const branch = (fields: Partial<Branch> = {}) =>
  branchOf({ sampling: { ...GREEDY, temperature: 1, topK: 1 }, ...fields })

interface Asked {
  readonly prefix: readonly PromptPart[]
  readonly branches: readonly Branch[]
}

function createScheduler(model: LoadedModel, prefixCacheBytes = 0): Scheduler {
  const planner = new BatchSplitter([{ rows: 1, ms: 1 }], 16, model.context.batch.capacity)
  const fail = (message: FromEngine) => {
    if (message.type === 'error') throw new Error(message.error.message)
  }
  return new Scheduler(model, planner, { maxWaiting: 100, prefixCacheBytes, speculation: false, seed: 1 }, fail)
}

/** @returns for every completion the logits that its tokens were sampled from. */
function logitsOf(scheduler: Scheduler, works: readonly Asked[]): Float32Array[][] {
  recorded = new Map()
  for (const [id, work] of works.entries()) scheduler.submit(id, { organisation: 'test', ...work })
  while (scheduler.step());
  return [...recorded.values()]
}

function distance(a: readonly Float32Array[], b: readonly Float32Array[]): number {
  expect(a.length).toBe(b.length)
  let most = 0
  for (const [step, logits] of a.entries()) {
    const other = b[step]!
    for (let i = 0; i < logits.length; i++) most = Math.max(most, Math.abs(logits[i]! - other[i]!))
  }
  return most
}

/** Distinguishes equal from different logits by their distance. */
function nearest(logits: readonly Float32Array[], candidates: readonly (readonly Float32Array[])[]): number {
  const near = candidates.flatMap((candidate, index) => (distance(logits, candidate) < NOISE ? [index] : []))
  expect(near).toHaveLength(1)
  return near[0]!
}

const user = trusted('<|im_start|>user\n')
const assistant = trusted('<|im_end|>\n<|im_start|>assistant\n')
/** The first token only: after the same prompt it has the same logits under any sampling. */
const first = branch({ maxTokens: 1 })

test('a turn after cached ones, with pictures in both', () => {
  const before = [user, picture(256, 192, 1), untrusted('What is here?'), assistant]
  const second = (seed: number) => [
    ...[user, picture(256, 192, seed), untrusted('What is here?'), assistant],
    ...[untrusted('A circle.'), assistant, user, picture(192, 256, 2), untrusted('And here?'), assistant],
  ]
  const caching = createScheduler(loaded, 4 * 2 ** 20)
  logitsOf(caching, [{ prefix: before, branches: [branch({ maxTokens: 4 })] }])
  const [cached] = logitsOf(caching, [{ prefix: second(1), branches: [first] }])
  expect(caching.stats.reusedTokens).toBeGreaterThan(50)
  const fresh = [1, 5].map(
    (seed) => logitsOf(createScheduler(loaded), [{ prefix: second(seed), branches: [first] }])[0]!,
  )
  expect(nearest(cached!, fresh)).toBe(0)
})

test('branches over a picture, and requests in one batch', () => {
  const context = [user, picture(256, 256, 3)]
  const suffixes = ['Where is the red one?', 'How many are there?', 'Is it blue?'].map((text) => [
    untrusted(text),
    assistant,
  ])
  const alone = suffixes.map(
    (suffix) => logitsOf(createScheduler(loaded), [{ prefix: [...context, ...suffix], branches: [first] }])[0]!,
  )
  const branches = suffixes.map((suffix) => branch({ suffix, n: 2, maxTokens: 1 }))
  const together = logitsOf(createScheduler(loaded), [{ prefix: context, branches }])
  expect(together.map((logits) => nearest(logits, alone))).toEqual([0, 0, 1, 1, 2, 2])

  const long = {
    prefix: [user, untrusted('one two three '.repeat(100)), assistant],
    branches: [branch({ maxTokens: 20, sampling: REPEATING })],
  }
  const requests = suffixes.map((suffix) => ({ prefix: [...context, ...suffix], branches: [first] }))
  const among = logitsOf(createScheduler(loaded), [long, ...requests, long]).filter((logits) => logits.length === 1)
  expect(among.map((logits) => nearest(logits, alone)).sort()).toEqual([0, 1, 2])
})

test('a completion that was preempted and computed again', () => {
  const works = Array.from({ length: 6 }, (_, i) => ({
    prefix: [user, picture(192, 192, i), untrusted(`Number ${i}?`), assistant],
    branches: [branch({ maxTokens: 30, sampling: REPEATING })],
  }))
  const small = load(256)
  try {
    const scheduler = createScheduler(small)
    const interrupted = logitsOf(scheduler, works)
    expect(scheduler.stats.preemptions).toBeGreaterThan(0)
    const alone = works.map((work) => logitsOf(createScheduler(loaded), [work])[0]!)
    expect(interrupted.map((logits) => nearest(logits, alone))).toEqual([0, 1, 2, 3, 4, 5])
  } finally {
    small.close()
  }
})
