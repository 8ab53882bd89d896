import { setTimeout as delay } from 'node:timers/promises'
import { afterEach, expect, test, vi } from 'vitest'
import { FakeEngine } from '../../../test/support/fake-engine.ts'
import type { Engine } from '../contract/engine.ts'
import type { EngineEvent, Generation } from '../contract/generation.ts'
import type { Work } from '../contract/work.ts'
import { EnginePool, type EnginePoolOptions } from './engine-pool.ts'
import type { PooledEngine } from './pooled-engine.ts'

const GIB = 2 ** 30
const pools: EnginePool[] = []
afterEach(async () => {
  await Promise.all(pools.splice(0).map((pool) => pool.close()))
})

function openPool(options: Partial<EnginePoolOptions> = {}) {
  const log: string[] = []
  const logger = { info: (line: string) => void log.push(line), error: (line: string) => void log.push(line) }
  const pool = new EnginePool({ memoryLimitBytes: null, loadWaitMs: 60_000, logger, ...options })
  pools.push(pool)
  const add = (name: string, start: (signal: AbortSignal) => Promise<Engine> = async () => new FakeEngine()) => {
    const starts = vi.fn(start)
    return { engine: pool.add({ name, info: new FakeEngine().info, memoryBytes: GIB, start: starts }), starts }
  }
  return { pool, add, log }
}

const sampling = { temperature: 0, topP: 1, topK: 0, frequencyPenalty: 0, presencePenalty: 0 }
const work: Work = {
  organisation: 'test',
  prefix: [{ type: 'text', text: 'Hi', trusted: false }],
  branches: [{ suffix: [], n: 1, maxTokens: 9, sampling }],
}

const begin = (engine: PooledEngine, signal = new AbortController().signal) => engine.generate(work, signal)
async function finish(generation: Generation): Promise<string> {
  let text = ''
  for await (const event of generation.events) if (event.type === 'text') text += event.text
  return text
}
const ask = async (engine: PooledEngine) => finish(await begin(engine))
const overloaded = expect.objectContaining({ status: 503, code: 'model_overloaded', retryAfter: expect.any(Number) })

test('the first work loads a model, once for all requests that arrive meanwhile', async () => {
  const { add } = openPool()
  const { engine, starts } = add('a', () => delay(20, new FakeEngine()))
  expect(engine.state).toBe('unloaded')
  const answers = [
    ask(engine),
    ask(engine),
    engine.countTokens(work.prefix, { organisation: 'test', signal: new AbortController().signal }),
  ]
  expect(engine.state).toBe('starting')
  expect(await Promise.all(answers)).toEqual(['Hello there.', 'Hello there.', 2])
  expect(engine.state).toBe('ready')
  expect(starts).toHaveBeenCalledOnce()
})

test('models are loaded one at a time', async () => {
  const { add } = openPool()
  let loading = 0
  const start = async () => {
    expect(++loading).toBe(1)
    await delay(10)
    loading--
    return new FakeEngine()
  }
  await Promise.all(['a', 'b', 'c'].map((name) => ask(add(name, start).engine)))
})

test('the least recently used model is unloaded to make room', async () => {
  const { add } = openPool({ memoryLimitBytes: 2 * GIB })
  const [a, b, c] = [add('a').engine, add('b').engine, add('c').engine]
  for (const engine of [a, b, a, c]) await ask(engine)
  expect([a.state, b.state, c.state]).toEqual(['ready', 'unloaded', 'ready'])
  await ask(b)
  expect([a.state, b.state, c.state]).toEqual(['unloaded', 'ready', 'ready'])
})

test('a model in use is not unloaded: others wait for it, up to the limit', async () => {
  const { add } = openPool({ memoryLimitBytes: GIB, loadWaitMs: 1000 })
  const { engine: a } = add('a')
  const { engine: b, starts } = add('b')
  const generation = await begin(a)
  await expect(ask(b)).rejects.toEqual(overloaded)
  expect([a.state, starts.mock.calls.length]).toEqual(['ready', 0])
  const late = ask(b)
  expect(await finish(generation)).toBe('Hello there.')
  expect(await late).toBe('Hello there.')
  expect([a.state, b.state]).toEqual(['unloaded', 'ready'])
})

test('a work whose signal fires frees its engine, whether its events are read or not', async () => {
  const { add } = openPool({ memoryLimitBytes: GIB })
  const [a, b] = [add('a').engine, add('b').engine]
  const leaving = new AbortController()
  await begin(a, leaving.signal)
  leaving.abort()
  expect(await ask(b)).toBe('Hello there.')
  const aborted = AbortSignal.abort(new Error('left'))
  await expect(begin(b, aborted)).rejects.toThrow('left')
  expect(b.isIdle).toBe(true)
})

test('nothing is unloaded for a load that would not fit anyway', async () => {
  const { pool, add } = openPool({ memoryLimitBytes: 3 * GIB, loadWaitMs: 300 })
  const [a, b] = [add('a').engine, add('b').engine]
  const start = async () => new FakeEngine()
  const large = pool.add({ name: 'large', info: a.info, memoryBytes: 3 * GIB, start })
  await ask(a)
  const busy = await begin(b)
  await expect(ask(large)).rejects.toEqual(overloaded)
  expect(a.state).toBe('ready')
  await finish(busy)
})

test('a load that takes too long is no longer waited for, and serves later requests', async () => {
  const { add } = openPool({ loadWaitMs: 30 })
  const { engine, starts } = add('a', () => delay(100, new FakeEngine()))
  await expect(ask(engine)).rejects.toEqual(overloaded)
  await expect.poll(() => engine.state).toBe('ready')
  expect(await ask(engine)).toBe('Hello there.')
  expect(starts).toHaveBeenCalledOnce()
})

test('a caller that aborts stops waiting', async () => {
  const { add } = openPool()
  const { engine } = add('a', () => delay(300, new FakeEngine()))
  const leaving = new AbortController()
  const answer = begin(engine, leaving.signal)
  leaving.abort(new Error('left'))
  await expect(answer).rejects.toThrow('left')
})

test('a failed load is retried after a pause, and only the log names its cause', async () => {
  let broken = true
  const { add, log } = openPool()
  const { engine, starts } = add('a', async () => {
    if (broken) throw new Error('/srv/secret.gguf is broken')
    return new FakeEngine()
  })
  for (const _attempt of [1, 2]) {
    const failure = ask(engine)
    await expect(failure).rejects.toEqual(overloaded)
    await expect(failure).rejects.toThrow('The model cannot be loaded at the moment.')
  }
  expect(starts).toHaveBeenCalledOnce()
  expect(log).toEqual(['Cannot load a: /srv/secret.gguf is broken'])
  broken = false
  await expect.poll(() => ask(engine).catch(() => null), { interval: 100 }).toBe('Hello there.')
  expect(starts).toHaveBeenCalledTimes(2)
})

test('a model that never fits is rejected at once, and so are too many models at start', async () => {
  const { pool, add } = openPool({ memoryLimitBytes: 1.5 * GIB })
  const start = async () => new FakeEngine()
  expect(() => pool.add({ name: 'large', info: null, memoryBytes: 2 * GIB, start })).toThrow(
    'LOOKOUT_MODEL_MEMORY is too low for large: about 2.00 GiB is needed, but the limit is 1.50 GiB',
  )
  const [a, b] = [add('a').engine, add('b').engine]
  await expect(pool.preload([a, b])).rejects.toThrow(/at start \(a, b\): about 2\.00 GiB/)
  await pool.preload([a])
  expect(a.state).toBe('ready')
})

test('a model that is removed serves those who hold it, then leaves its memory to others', async () => {
  const { pool, add, log } = openPool({ memoryLimitBytes: GIB })
  const [a, b] = [add('a').engine, add('b').engine]
  const release = a.hold()
  const generation = await begin(a)
  const removed = pool.remove(a, { isReplaced: false })
  const other = ask(b)
  await finish(generation)
  expect(await other).toBe('Hello there.')
  expect(await ask(a)).toBe('Hello there.')
  expect(pool.engines).toEqual([a, b])
  release()
  await removed
  expect([a.state, pool.engines]).toEqual(['closed', [b]])
  expect(await ask(b)).toBe('Hello there.')
  expect(log.filter((line) => line.startsWith('Unloaded a'))).toEqual([
    'Unloaded a to make room for another model',
    'Unloaded a, which is no longer served',
  ])
  const idle = add('c').engine
  await pool.remove(idle, { isReplaced: false })
  expect(idle.state).toBe('closed')
})

test('a failed start gives its cause', async () => {
  const { pool, add } = openPool()
  const { engine } = add('a', async () => {
    throw new Error('no such file')
  })
  await expect(pool.preload([engine])).rejects.toThrow('no such file')
})

test('closing ends engines, loads in progress and waiting requests', async () => {
  const { pool, add } = openPool()
  const running = new FakeEngine()
  const { engine: a } = add('a', async () => running)
  const { engine: b } = add('b', (signal) => delay(60_000, new FakeEngine(), { signal }))
  await ask(a)
  const waiting = ask(b)
  waiting.catch(() => {})
  await expect.poll(() => b.state).toBe('starting')
  await pool.close()
  await expect(waiting).rejects.toEqual(overloaded)
  expect([a.state, b.state, running.state]).toEqual(['closed', 'closed', 'closed'])
  await expect(ask(a)).rejects.toEqual(overloaded)
})

/** An engine that emits the given events. */
class ScriptedEngine extends FakeEngine {
  readonly #events: readonly EngineEvent[]

  constructor(events: readonly EngineEvent[]) {
    super()
    this.#events = events
  }

  override async generate(work: Work, signal: AbortSignal): Promise<Generation> {
    const events = this.#events
    return {
      ...(await super.generate(work, signal)),
      events: (async function* () {
        yield* events
      })(),
    }
  }
}

const failed = (branch: number): EngineEvent => ({ type: 'error', branch, error: new Error('broken') })
const finished = (branch: number, completion: number): EngineEvent => ({
  type: 'finish',
  branch,
  completion,
  reason: 'stop',
  completionTokens: 1,
})

test.each([
  ['a branch failed and the others finished', [failed(0), finished(1, 0), finished(1, 1)], 'finished'],
  [
    'another completion of the failed branch continued',
    [failed(0), finished(0, 1), finished(1, 0), finished(1, 1)],
    'finished',
  ],
  [
    'one completion finished before its branch failed',
    [finished(0, 0), failed(0), finished(1, 0), finished(1, 1)],
    'finished',
  ],
  ['every branch failed', [failed(0), failed(1)], 'failed'],
  ['a branch has not ended', [failed(0), finished(1, 0)], 'aborted'],
])('the outcome of a work when %s', async (_, events, outcome) => {
  const ended = vi.fn()
  const meter = { loaded() {}, loadFailed() {}, unloaded() {}, firstText() {}, nextText() {}, ended }
  const { add } = openPool({ meter })
  const { engine } = add('a', async () => new ScriptedEngine(events))
  const branches = [0, 1].map(() => ({ ...work.branches[0]!, n: 2 }))
  await finish(await engine.generate({ ...work, branches }, new AbortController().signal))
  expect(ended.mock.calls).toEqual([['a', outcome]])
})
