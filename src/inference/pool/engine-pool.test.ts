import { setTimeout as delay } from 'node:timers/promises'
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { FakeEngine } from '../../../test/support/fake-engine.ts'
import { seededRandom } from '../../doctor/random.ts'
import type { Engine } from '../contract/engine.ts'
import type { EngineEvent, Generation } from '../contract/generation.ts'
import type { Work } from '../contract/work.ts'
import { EnginePool, type EnginePoolOptions } from './engine-pool.ts'
import { MeteredEngine } from './metered-engine.ts'
import type { PooledEngine } from './pooled-engine.ts'

const GIB = 2 ** 30
const pools: EnginePool[] = []
afterEach(async () => {
  await Promise.all(pools.splice(0).map((pool) => pool.close()))
})

function openPool(options: Partial<EnginePoolOptions> = {}) {
  const log: string[] = []
  const logger = { info: (line: string) => void log.push(line), error: (line: string) => void log.push(line) }
  const pool = new EnginePool({ memoryLimitBytes: null, loadWaitMs: 60_000, leastStayMs: 0, logger, ...options })
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

test('a model in use is not unloaded: others wait for it', async () => {
  const { add } = openPool({ memoryLimitBytes: GIB })
  const [a, b] = [add('a').engine, add('b').engine]
  const generation = await begin(a)
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

describe('models that do not fit into memory together', () => {
  /** Asks for an answer, and notes the model's name when it is there. */
  const noting = (order: string[]) => async (engine: PooledEngine) => {
    await ask(engine)
    order.push(engine.model.name)
  }

  test('take turns in constant use: new requests wait, running ones end', async () => {
    const { add } = openPool({ memoryLimitBytes: GIB })
    const engines = ['a', 'b', 'c'].map((name) => add(name).engine)
    const [a, b, c] = engines as [PooledEngine, PooledEngine, PooledEngine]
    const order: string[] = []
    const asks = noting(order)
    const running = await begin(a)
    const answers = [asks(b), asks(c)]
    await expect.poll(() => a.givesWay).toBe(true)
    answers.push(asks(a), asks(a))
    expect([a.state, a.waiting, b.waiting]).toEqual(['ready', 2, 1])
    expect(await finish(running)).toBe('Hello there.')
    await Promise.all(answers)
    expect(order).toEqual(['b', 'c', 'a', 'a'])

    // Each has three clients, who ask again at once.
    const counts = new Map(engines.map((engine) => [engine, 0]))
    const client = async (engine: PooledEngine) => {
      while ([...counts.values()].some((count) => count < 5)) {
        await ask(engine)
        counts.set(engine, counts.get(engine)! + 1)
      }
    }
    await Promise.all(engines.flatMap((engine) => [client(engine), client(engine), client(engine)]))
  })

  test('stay for as long as they took to load, and at least for a time', async () => {
    fakeClock()
    const { add } = openPool({ memoryLimitBytes: GIB, leastStayMs: 5_000, loadWaitMs: 30_000 })
    const [a, b] = [add('a', () => later(8_000)).engine, add('b').engine]
    const loading = begin(a)
    await vi.advanceTimersByTimeAsync(8_000)
    const running = await loading
    const waiting = ask(b)
    await vi.advanceTimersByTimeAsync(7_900)
    expect(a.givesWay).toBe(false)
    await finish(await begin(a))
    await vi.advanceTimersByTimeAsync(100)
    expect(a.givesWay).toBe(true)
    // The time that a load may take begins with it.
    const queued = ask(a)
    await vi.advanceTimersByTimeAsync(40_000)
    await finish(running)
    expect(await waiting).toBe('Hello there.')
    await vi.advanceTimersByTimeAsync(5_000)
    expect(a.state).toBe('starting')
    await vi.advanceTimersByTimeAsync(8_000)
    expect(await queued).toBe('Hello there.')
  })

  test('stay between the requests of one client, and leave when no more come', async () => {
    fakeClock()
    const { add } = openPool({ memoryLimitBytes: GIB, leastStayMs: 5_000 })
    const [a, b] = [add('a').engine, add('b').engine]
    await ask(a)
    const waiting = ask(b)
    for (let ms = 0; ms < 4_500; ms += 500) {
      await vi.advanceTimersByTimeAsync(500)
      expect([a.state, a.isIdle]).toEqual(['ready', true])
      await ask(a)
    }
    await vi.advanceTimersByTimeAsync(500)
    expect(await waiting).toBe('Hello there.')
    const other = ask(a)
    await vi.advanceTimersByTimeAsync(900)
    expect([a.state, b.state]).toEqual(['starting', 'ready'])
    await vi.advanceTimersByTimeAsync(100)
    expect(await other).toBe('Hello there.')
  })

  test('wait in line for as long as those before them', async () => {
    fakeClock()
    const { add } = openPool({ memoryLimitBytes: GIB, loadWaitMs: 30_000, drainMs: 60_000 })
    const [a, b, c] = [add('a').engine, add('b').engine, add('c').engine]
    const running = await begin(a)
    const next = begin(b)
    const last = ask(c)
    await vi.advanceTimersByTimeAsync(50_000)
    expect([a.givesWay, b.waiting, c.waiting]).toEqual([true, 1, 1])
    await finish(running)
    const second = await next
    await vi.advanceTimersByTimeAsync(50_000)
    expect([b.givesWay, c.waiting]).toEqual([true, 1])
    await finish(second)
    expect(await last).toBe('Hello there.')
  })

  test('do not wait for ever for a request that does not end, and once at most', async () => {
    fakeClock()
    const { add } = openPool({ memoryLimitBytes: GIB, loadWaitMs: 30_000, drainMs: 60_000 })
    const { engine: a } = add('a')
    const { engine: b, starts } = add('b')
    const endless = await begin(a)
    const refused = expect(ask(b)).rejects.toEqual(overloaded)
    await vi.advanceTimersByTimeAsync(1)
    const queued = ask(a)
    await vi.advanceTimersByTimeAsync(59_000)
    expect([a.givesWay, a.waiting]).toEqual([true, 1])
    await vi.advanceTimersByTimeAsync(1_000)
    expect(await queued).toBe('Hello there.')
    await vi.advanceTimersByTimeAsync(30_000)
    await refused
    expect(starts).not.toHaveBeenCalled()
    await vi.advanceTimersByTimeAsync(180_000)
    const waiting = ask(b)
    await vi.advanceTimersByTimeAsync(1_000)
    expect(a.givesWay).toBe(false)
    const next = await begin(a)
    await finish(endless)
    await vi.advanceTimersByTimeAsync(1)
    expect(a.givesWay).toBe(true)
    await finish(next)
    expect(await waiting).toBe('Hello there.')
  })

  test('finish the requests that have begun, with all their works', async () => {
    const { add } = openPool({ memoryLimitBytes: GIB })
    const [a, b] = [add('a').engine, add('b').engine]
    const { signal } = new AbortController()
    const [begun, other] = [new MeteredEngine(a), new MeteredEngine(a)]
    await finish(await begun.generate(work, signal))
    expect(a.isIdle).toBe(false)
    const waiting = ask(b)
    await expect.poll(() => a.givesWay).toBe(true)
    const queued = other.countTokens(work.prefix, { organisation: 'test', signal })
    expect(await begun.countTokens(work.prefix, { organisation: 'test', signal })).toBe(2)
    await finish(await begun.generate(work, signal))
    expect([a.waiting, b.waiting]).toEqual([1, 1])
    await begun.close()
    expect(await waiting).toBe('Hello there.')
    expect(await queued).toBe(2)
    await other.close()
  })

  test('go on when those who wait have left', async () => {
    const { add } = openPool({ memoryLimitBytes: GIB })
    const [a, b] = [add('a').engine, add('b').engine]
    const running = await begin(a)
    const leaving = new AbortController()
    const left = expect(begin(b, leaving.signal)).rejects.toThrow('left')
    await expect.poll(() => a.givesWay).toBe(true)
    const queued = ask(a)
    leaving.abort(new Error('left'))
    await left
    expect(await queued).toBe('Hello there.')
    expect([a.givesWay, b.state]).toEqual([false, 'unloaded'])
    await finish(running)
  })

  test('come back when the other one cannot be loaded, and leave for it again after a minute, then two', async () => {
    fakeClock()
    const { add, log } = openPool({ memoryLimitBytes: GIB, loadWaitMs: 30_000 })
    const { engine: a } = add('a')
    let isBroken = true
    const { engine: b, starts } = add('b', async () => {
      if (isBroken) throw new Error('broken')
      return new FakeEngine()
    })
    const running = await begin(a)
    const failing = expect(ask(b)).rejects.toEqual(overloaded)
    await vi.advanceTimersByTimeAsync(1)
    expect(a.givesWay).toBe(true)
    const queued = ask(a)
    await finish(running)
    await failing
    expect(await queued).toBe('Hello there.')
    for (const minutes of [1, 2]) {
      const busy = await begin(a)
      await vi.advanceTimersByTimeAsync(minutes * 60_000 - 40_000)
      const refused = expect(ask(b)).rejects.toEqual(overloaded)
      await vi.advanceTimersByTimeAsync(30_000)
      await refused
      const waiting = ask(b)
      const ended = minutes === 1 ? expect(waiting).rejects.toEqual(overloaded) : waiting
      await vi.advanceTimersByTimeAsync(9_000)
      expect([a.givesWay, starts.mock.calls.length]).toEqual([false, minutes])
      await vi.advanceTimersByTimeAsync(1_000)
      expect(a.givesWay).toBe(true)
      isBroken = minutes === 1
      await finish(busy)
      await ended
    }
    expect(b.state).toBe('ready')
    expect(log.filter((line) => line.startsWith('Loaded a'))).toHaveLength(3)
  })

  test('do not give way to work in the background, but to all other', async () => {
    const { add } = openPool({ memoryLimitBytes: GIB })
    const [a, b] = [add('a').engine, add('b').engine]
    const running = await begin(a)
    const { signal } = new AbortController()
    const terms = { priority: 'background' } as const
    const counted = new MeteredEngine(b, { terms }).countTokens(work.prefix, { organisation: 'test', signal })
    const background = new MeteredEngine(b, { terms }).generate(work, signal)
    expect(await ask(a)).toBe('Hello there.')
    expect([a.givesWay, b.waiting]).toEqual([false, 2])
    const live = b.generate({ ...work, priority: 'live' }, signal)
    await expect.poll(() => a.givesWay).toBe(true)
    await finish(running)
    await Promise.all([counted, background, live])
  })

  test('leave only as many as it takes, and what is kept for one is not given to another', async () => {
    const { pool, add } = openPool({ memoryLimitBytes: 3 * GIB })
    const [a, b, c, d] = ['a', 'b', 'c', 'd'].map((name) => add(name).engine) as PooledEngine[]
    const start = async () => new FakeEngine()
    const large = pool.add({ name: 'large', info: a!.info, memoryBytes: 2 * GIB, start })
    const [one, two] = [await begin(a!), await begin(b!)]
    const other = await begin(c!)
    const waiting = ask(large)
    await expect.poll(() => a!.givesWay && b!.givesWay).toBe(true)
    expect(c!.givesWay).toBe(false)
    await finish(one)
    const next = ask(d!)
    await expect.poll(() => c!.givesWay).toBe(true)
    expect([a!.state, d!.state]).toEqual(['ready', 'starting'])
    await finish(two)
    expect(await waiting).toBe('Hello there.')
    await finish(other)
    expect(await next).toBe('Hello there.')
  })

  test('bound their queues, and end them when the service stops', async () => {
    const { pool, add } = openPool({ memoryLimitBytes: GIB, maxWaiting: 2 })
    const [a, b] = [add('a').engine, add('b').engine]
    await begin(a)
    const waiting = [expect(ask(b)).rejects.toThrow('shutting down')]
    await expect.poll(() => a.givesWay).toBe(true)
    for (const _request of [1, 2]) waiting.push(expect(ask(a)).rejects.toThrow('shutting down'))
    await expect(ask(a)).rejects.toEqual(overloaded)
    await expect(ask(a)).rejects.toThrow('Too many requests wait for the model.')
    await pool.close()
    await Promise.all(waiting)
  })
})

test.each([1, 2, 3, 4, 5, 6])('requests at random end, and leave nothing behind (seed %i)', async (seed) => {
  fakeClock()
  const random = seededRandom(seed)
  const within = (most: number) => Math.floor(random() * (most + 1))
  const faults = new Set<string>()
  const sizes = Array.from({ length: 4 }, () => 1 + within(3))
  const limit = Math.max(...sizes) + within(2)
  let used = 0
  const pool = openPool({ memoryLimitBytes: limit, loadWaitMs: 30_000, leastStayMs: 5_000, drainMs: 60_000 }).pool
  const engines = sizes.map((size, index) => {
    const start = async () => {
      used += size
      if (used > limit) faults.add('memory')
      const free = () => {
        used -= size
      }
      await later(within(9_000))
      if (random() < 0.9) return new SlowEngine(free, faults)
      free()
      throw new Error('broken')
    }
    return pool.add({ name: `${index}`, info: new FakeEngine().info, memoryBytes: size, start })
  })
  let left = 150
  const request = async () => {
    await later(within(600_000))
    const priority = (['interactive', 'live', 'background'] as const)[within(2)]!
    const engine = new MeteredEngine(engines[within(3)]!, { terms: { priority } })
    const leaving = new AbortController()
    const timer = setTimeout(() => leaving.abort(), random() < 0.3 ? within(40_000) : 120_000)
    try {
      for (let works = within(3); works >= 0; works--) {
        const begun = await engine.generate(
          { ...work, branches: [{ ...work.branches[0]!, maxTokens: within(9_000) }] },
          leaving.signal,
        )
        if (random() < 0.9) await finish(begun)
        await later(within(2_000))
      }
    } catch {
      // The load failed, took too long, or the client has left.
    }
    clearTimeout(timer)
    leaving.abort()
    await engine.close()
    left--
  }
  const all = Array.from({ length: left }, request)
  await vi.advanceTimersByTimeAsync(3_600_000)
  expect([left, faults]).toEqual([0, new Set()])
  await Promise.all(all)
  for (const engine of engines)
    expect([engine.isInUse, engine.waiting, engine.givesWay, engine.mayGiveWay]).toEqual([false, 0, false, true])
  await pool.close()
  expect([used, vi.getTimerCount()]).toEqual([0, 0])
})

test('nothing is unloaded for a load that would not fit anyway', async () => {
  fakeClock()
  const { pool, add } = openPool({ memoryLimitBytes: 3 * GIB, loadWaitMs: 30_000, drainMs: 60_000 })
  const [a, b] = [add('a').engine, add('b').engine]
  const start = async () => new FakeEngine()
  const large = pool.add({ name: 'large', info: a.info, memoryBytes: 3 * GIB, start })
  await ask(a)
  const busy = await begin(b)
  const refused = expect(ask(large)).rejects.toEqual(overloaded)
  await vi.advanceTimersByTimeAsync(90_000)
  await refused
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

test('a caller that aborts just as the model is loaded does not keep it', async () => {
  for (let ticks = 0; ticks < 20; ticks++) {
    const leaving = new AbortController()
    const loaded = async () => {
      for (let tick = 0; tick < ticks; tick++) await null
      leaving.abort()
    }
    const meter = { loaded, loadFailed() {}, unloaded() {}, firstText() {}, nextText() {}, ended() {} }
    const { engine } = openPool({ meter }).add('a')
    await begin(engine, leaving.signal).catch(() => {})
    await expect.poll(() => engine.isInUse).toBe(false)
  }
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
  const hold = a.hold()
  const generation = await begin(a)
  const removed = pool.remove(a, { isReplaced: false })
  const other = ask(b)
  await finish(generation)
  expect(await other).toBe('Hello there.')
  expect(await ask(a)).toBe('Hello there.')
  expect(pool.engines).toEqual([a, b])
  hold.release()
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

function fakeClock(): void {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
}

/** An engine that is ready after a time of the faked clock. */
function later(ms: number): Promise<Engine> {
  return new Promise((resolve) => setTimeout(resolve, ms, new FakeEngine()))
}

/** An engine whose works take as many ms as they may have tokens. It notes when it is closed during one. */
class SlowEngine extends FakeEngine {
  readonly #free: () => void
  readonly #faults: Set<string>

  constructor(free: () => void, faults: Set<string>) {
    super()
    this.#free = free
    this.#faults = faults
  }

  override async generate(work: Work, signal: AbortSignal): Promise<Generation> {
    const begun = await super.generate(work, signal)
    const isClosed = () => this.state === 'closed' && !signal.aborted
    if (isClosed()) this.#faults.add('given work when closed')
    const events = async function* (faults: Set<string>): AsyncGenerator<EngineEvent> {
      await later(work.branches[0]!.maxTokens ?? 0)
      if (isClosed()) faults.add('closed during a work')
      signal.throwIfAborted()
      yield finished(0, 0)
    }
    return { ...begun, events: events(this.#faults) }
  }

  override async close(): Promise<void> {
    await super.close()
    this.#free()
  }
}

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
