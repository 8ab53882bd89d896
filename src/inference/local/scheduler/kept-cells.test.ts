import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { branch, picture, REPEATING, trusted, untrusted } from '../../../../test/support/local-engine.ts'
import { shippedSettings } from '../../../../test/support/shipped-settings.ts'
import type { EngineEvent } from '../../contract/generation.ts'
import type { PromptPart } from '../../contract/parts.ts'
import { computeOf } from '../native/compute.ts'
import { loadNativeLibraries } from '../native/libraries.ts'
import { locateNativeLibraries } from '../native/native-paths.ts'
import type { FromEngine } from '../protocol.ts'
import { calibrate } from '../worker/calibration.ts'
import { openDisk } from '../worker/open-disk.ts'
import { BatchSplitter } from './batch/batch-splitter.ts'
import { LoadedModel } from './loaded-model.ts'
import { Scheduler, type SchedulerDisk } from './scheduler.ts'

/**
 * Simulates on the CPU how a device handles ended work: by the test's clock, a copy takes as long as it says, and nothing
 * else takes any time.
 */

const DEVICE = computeOf({ layers: 1, ofLayers: 1 }, true)
const ROW_MS = 0.05
/** A cell costs as much as computing it in 200 steps. */
const IDLE_CELL_MS = ROW_MS / 200
const REST_MS = 1000
/** Far more than computing it. */
const SLOW_COPY_MS = 80

let loaded: LoadedModel
let clock = 0
let copyMs = 0
let copied = 0
let restored = 0
let encoded = 0
let scheduler: Scheduler | null = null
let submitted: number[] = []

beforeEach(async () => {
  const libraries = loadNativeLibraries(locateNativeLibraries())
  const { llama } = libraries
  const mtmd = libraries.mtmd!
  const save: typeof llama.state_seq_get_data = (...args) => {
    copied++
    clock += copyMs
    return llama.state_seq_get_data(...args)
  }
  const restore: typeof llama.state_seq_set_data = (...args) => {
    restored++
    return llama.state_seq_set_data(...args)
  }
  const run: typeof mtmd.encoder_run = (...args) => {
    encoded++
    return mtmd.encoder_run(...args)
  }
  loaded = new LoadedModel(
    {
      ...libraries,
      llama: { ...llama, state_seq_get_data: save, state_seq_set_data: restore },
      mtmd: { ...mtmd, encoder_run: run },
    },
    await shippedSettings({ threads: 2, encoder: true, cells: 1536 }),
  )
  Object.assign(loaded, { compute: DEVICE })
})

afterEach(async () => {
  // No step or copy may run once the model is closed.
  for (const id of submitted) scheduler?.abort(id)
  while (scheduler?.step());
  clock += REST_MS
  while (scheduler?.step());
  vi.restoreAllMocks()
  await loaded.close()
})

function createScheduler({
  takesMs = SLOW_COPY_MS,
  maxTokens = 8,
  idleCellMs = IDLE_CELL_MS,
  disk = null as SchedulerDisk | null,
} = {}) {
  const sent: FromEngine[] = []
  const splitter = new BatchSplitter([{ rows: 1, ms: 0.01 }], 4, loaded.context.batch.capacity, ROW_MS, idleCellMs)
  const settings = { maxWaiting: 10, prefixCacheBytes: 64 * 2 ** 20, speculation: false, seed: 1 }
  const created = new Scheduler(loaded, splitter, settings, (message) => sent.push(message), { disk })
  scheduler = created
  submitted = []
  ;[copied, restored, encoded, copyMs] = [0, 0, 0, takesMs]
  vi.spyOn(performance, 'now').mockImplementation(() => clock)
  const eventsOf = (id: number): EngineEvent[] =>
    sent
      .flatMap((message) => (message.type === 'events' ? message.requests : []))
      .flatMap((request) => (request.id === id ? request.events : []))
  const textOf = (id: number) =>
    eventsOf(id)
      .map((event) => (event.type === 'text' ? event.text : ''))
      .join('')
  const submit = (id: number, prefix: readonly PromptPart[], tokens = maxTokens) => {
    submitted.push(id)
    created.submit(id, {
      organisation: 'test',
      prefix,
      branches: [branch({ maxTokens: tokens, sampling: REPEATING })],
    })
  }
  const finish = (id: number) => {
    const isFinished = () => eventsOf(id).some(({ type }) => type === 'finish')
    while (!isFinished()) {
      if (!created.step() && !isFinished())
        throw new Error(`Request ${id} does not end: ${JSON.stringify(sent.at(-1))}`)
    }
  }
  /** Computes a request. @returns its reply, and how many cells of its prompt were computed. */
  const ask = (id: number, prefix: readonly PromptPart[]) => {
    const before = created.stats.prefilledTokens
    submit(id, prefix)
    finish(id)
    return { text: textOf(id), computed: created.stats.prefilledTokens - before }
  }
  return { scheduler: created, submit, finish, ask, textOf }
}

const user = (...parts: PromptPart[]) => [
  trusted('<|im_start|>user\n'),
  ...parts,
  trusted('<|im_end|>\n<|im_start|>assistant\n'),
]
const words = (count: number, word = 'one') => untrusted(`${word} two three four `.repeat(count / 4))

test('a second question about a picture computes its own tokens, and neither encodes nor copies', () => {
  const { scheduler, ask } = createScheduler()
  const shown = picture(256, 256)
  const first = ask(1, user(shown, untrusted('What is here?')))
  while (scheduler.step());
  expect(first.computed).toBeGreaterThan(64)
  const encodings = encoded
  const second = ask(2, user(shown, untrusted('And what is its colour?')))
  while (scheduler.step());
  expect(second.computed).toBeLessThan(20)
  expect([encoded, copied, restored]).toEqual([encodings, 0, 0])
})

test('each turn of a chat computes only its new tokens, and copies nothing', () => {
  const { scheduler, ask } = createScheduler()
  const chat = user(words(200))
  for (let turn = 1; turn <= 5; turn++) {
    const { text, computed } = ask(turn, chat)
    while (scheduler.step());
    if (turn > 1) expect(computed).toBeLessThan(60)
    chat.push(trusted(text), trusted('<|im_end|>\n'), ...user(words(24, `turn ${turn}`)))
  }
  expect([copied, restored]).toEqual([0, 0])
  expect(scheduler.stats).toMatchObject({ prefixHits: 4, cachedSequences: 0 })
})

test('copies wait until the engine has been idle for a while, and the cells stay after that', () => {
  const { scheduler, ask, submit, finish } = createScheduler()
  ask(1, user(words(200)))
  while (scheduler.step());
  const { retainedCells } = scheduler.stats
  clock += REST_MS - 1
  expect(scheduler.step()).toBe(false)
  expect(copied).toBe(0)
  // A request that arrives meanwhile does not wait, and the idle time begins again.
  submit(2, user(words(40, 'other')))
  finish(2)
  clock += REST_MS - 1
  expect([scheduler.step(), copied]).toEqual([false, 0])
  clock += 1
  while (scheduler.step());
  expect(copied).toBe(2)
  expect(scheduler.stats.cachedCells).toBe(scheduler.stats.retainedCells)
  expect(scheduler.stats.retainedCells).toBeGreaterThan(retainedCells)
})

test('beside a stream, ended work is released soon unless it is continued', () => {
  const { scheduler, ask, submit } = createScheduler({ idleCellMs: 4 * IDLE_CELL_MS })
  submit(0, user(words(4, 'stream')), 1200)
  const stepsUntilGone = () => {
    let steps = 0
    for (; scheduler.stats.retainedSequences > 0; steps++) expect(scheduler.step()).toBe(true)
    return steps
  }
  ask(1, user(words(100, 'a')))
  const atFirst = stepsUntilGone()
  for (let id = 2; id < 8; id++) ask(id, user(words(100, `b${id}`)))
  const fresh = stepsUntilGone()
  expect(fresh).toBeLessThan(atFirst)
  // Released work is continued again and again.
  for (let id = 10; id < 18; id++) {
    ask(id, user(words(100, 'c')))
    ask(id + 10, user(words(100, 'c')))
  }
  expect(stepsUntilGone()).toBeGreaterThan(2 * atFirst)
  expect(copied).toBeLessThanOrEqual(1)
  scheduler.abort(0)
})

test('when cells run short, retained sequences are first copied if that is quick, and not lost', () => {
  const { scheduler, ask, submit, finish } = createScheduler({ takesMs: 0.01 })
  const long = user(words(300))
  const first = ask(1, long)
  // A running sequence needs nearly all cells.
  submit(2, user(words(800, 'much')), 100)
  finish(2)
  expect(copied).toBeGreaterThan(0)
  const again = ask(3, long)
  expect(again).toEqual({ text: first.text, computed: 0 })
  expect(scheduler.stats.preemptions).toBe(0)
})

test('if copies take longer than prefill, cells are released without a copy', () => {
  const { scheduler, ask, submit, finish } = createScheduler()
  ask(1, user(words(100)))
  clock += REST_MS
  while (scheduler.step());
  expect(copied).toBe(1)
  ask(2, user(words(300, 'more')))
  submit(3, user(words(800, 'much')), 100)
  finish(3)
  expect(copied).toBe(1)
  expect(scheduler.stats.retainedSequences).toBeLessThan(3)
})

test('measures the cost of a cell that no row attends to, and frees all cells', () => {
  vi.spyOn(performance, 'now').mockImplementation(() => clock)
  vi.spyOn(loaded.context, 'decodeBatch').mockImplementation(() => {
    clock += 2 + loaded.kv.usedCells * IDLE_CELL_MS
    loaded.context.batch.clear()
  })
  expect(calibrate(loaded).idleCellMs).toBeCloseTo(IDLE_CELL_MS)
  expect([loaded.kv.usedCells, loaded.kv.usedSequences]).toEqual([0, 0])
})

test('ended work is written to disk when the engine is idle, or at the latest when the process ends', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'lookout-kept-'))
  try {
    const settings = await shippedSettings({ encoder: true, cells: 1536, prefixCacheBytes: 64 * 2 ** 20 })
    const prefixDisk = { directory, limitBytes: 2 ** 30, model: 'test', keepsAll: true }
    const open = () => openDisk({ ...settings, prefixDisk }, { fingerprint: 'fp_0' })!
    const before = createScheduler({ takesMs: 0, disk: open() })
    before.submit(1, user(words(200)))
    await vi.waitFor(() => expect(before.textOf(1)).not.toBe(''), { timeout: 60_000 })
    before.finish(1)
    expect(copied).toBe(0)
    vi.mocked(performance.now).mockRestore()
    await before.scheduler.close(10_000)
    expect(copied).toBeGreaterThan(0)
    // Another process finds it.
    const disk = open()
    const after = createScheduler({ disk })
    after.submit(2, user(words(200)))
    await vi.waitFor(() => expect(after.textOf(2)).not.toBe(''), { timeout: 60_000 })
    after.finish(2)
    expect(after.textOf(2)).toBe(before.textOf(1))
    expect([restored, disk.prefixes.stats.diskHits]).toEqual([1, 1])
  } finally {
    await rm(directory, { recursive: true })
  }
})
