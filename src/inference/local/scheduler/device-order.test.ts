import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { computesApart, type DeviceHooks, loadExact } from '../../../../test/support/exact-model.ts'
import { branch, endless, GREEDY, REPEATING, trusted, untrusted } from '../../../../test/support/local-engine.ts'
import type { Constraint } from '../../contract/constraint.ts'
import type { EngineEvent } from '../../contract/generation.ts'
import { PRIORITIES, type Priority } from '../../contract/priority.ts'
import type { Work } from '../../contract/work.ts'
import { KvCache } from '../cache/kv-cache.ts'
import type { FromEngine } from '../protocol.ts'
import { BatchSplitter } from './batch/batch-splitter.ts'
import type { LoadedModel } from './loaded-model.ts'
import { Scheduler, type SchedulerOptions } from './scheduler.ts'
import type { Scorer } from './step-turns.ts'

/** A device computes a step while the scheduler does its other work. On a CPU, all of that comes one after the other. */

const SEQUENCES = 4
const CONSTRAINT: Constraint = { type: 'regex', pattern: '(one two three four five ){1,9}done' }

let loaded: LoadedModel
let sequences: number

beforeAll(async () => {
  // Few enough cells that sequences are preempted.
  loaded = await loadExact({ cells: 192, maxSequences: SEQUENCES, prefixCacheBytes: 2 ** 20 })
  sequences = loaded.kv.freeSequences
  await loaded.constraints.prepare(CONSTRAINT, 'test')
})

afterAll(() => loaded?.close())

/** Steps are computed by hand. */
const byHand = () => new Promise<void>(() => {})

/** With an empty KV cache: the other one still has sequences that an earlier scheduler retained. */
function createScheduler(send: (message: FromEngine) => void, options: Partial<SchedulerOptions> = {}): Scheduler {
  loaded.context.clear()
  Object.assign(loaded, { kv: new KvCache(loaded.context, sequences) })
  const splitter = new BatchSplitter([{ rows: 1, ms: 1 }], SEQUENCES, loaded.context.batch.capacity)
  return new Scheduler(
    loaded,
    splitter,
    { maxWaiting: 100, prefixCacheBytes: 2 ** 20, speculation: true, seed: 1 },
    send,
    { receive: byHand, ...options },
  )
}

const ask = (text: string, maxTokens: number, fields: Partial<Work> = {}): Work => ({
  organisation: 'test',
  prefix: [trusted('<|im_start|>user\n'), untrusted(text), trusted('<|im_end|>\n<|im_start|>assistant\n')],
  branches: [branch({ maxTokens, sampling: REPEATING })],
  ...fields,
})

interface Told {
  readonly isAdmitted: boolean
  readonly events: readonly EngineEvent[]
  readonly isEnded: boolean
  readonly hasFailed: boolean
}

/** The messages of each request. None may follow its last event, its error or its abort. */
class Client {
  readonly #told = new Map<number, Told>()
  readonly #aborted = new Set<number>()

  readonly receive = (message: FromEngine): void => {
    if (message.type === 'admitted') {
      expect(this.#told.has(message.id)).toBe(false)
      this.#add(message.id, { isAdmitted: true })
    } else if (message.type === 'error') this.#add(message.id, { hasFailed: true })
    else if (message.type === 'events') {
      for (const { id, events, last } of message.requests) {
        expect(this.of(id).isAdmitted).toBe(true)
        this.#add(id, { events: [...this.of(id).events, ...events], isEnded: last })
      }
    }
  }

  of(id: number): Told {
    return this.#told.get(id) ?? { isAdmitted: false, events: [], isEnded: false, hasFailed: false }
  }

  abort(id: number): void {
    this.#aborted.add(id)
  }

  #add(id: number, fields: Partial<Told>): void {
    const told = this.of(id)
    expect([id, told.isEnded, told.hasFailed, this.#aborted.has(id)]).toEqual([id, false, false, false])
    this.#told.set(id, { ...told, ...fields })
  }
}

/** By completion: its text, and how it ended if it did. */
function repliesOf({ events }: Told): Record<string, { text: string; end: EngineEvent | null }> {
  const replies: Record<string, { text: string; end: EngineEvent | null }> = {}
  for (const event of events) {
    const key = event.type === 'error' ? `${event.branch}` : `${event.branch}.${event.completion}`
    const reply = replies[key] ?? { text: '', end: null }
    replies[key] = reply
    expect(reply.end).toBeNull()
    if (event.type === 'text') reply.text += event.text
    else reply.end = event
  }
  return replies
}

/** Makes a given number of calls. */
class FakeScorer implements Scorer {
  readonly running = 0
  readonly waiting = 0
  readonly prefilledTokens = 0
  readonly #mayRun: () => boolean
  #left: number
  readonly #priority: Priority

  constructor(left: number, priority: Priority, mayRun: () => boolean) {
    this.#left = left
    this.#priority = priority
    this.#mayRun = mayRun
  }

  has(priority: Priority): boolean {
    return this.#left > 0 && priority === this.#priority
  }

  waitingOf(): number {
    return 0
  }

  share(): void {}

  step(priority: Priority): Priority {
    expect([this.#mayRun(), priority]).toEqual([true, this.#priority])
    this.#left--
    return priority
  }

  abort(): void {
    expect(this.#mayRun()).toBe(true)
  }
}

const request = fc.record({
  work: fc.record({
    organisation: fc.constantFrom('a', 'b'),
    text: fc.constantFrom('one two three four five '.repeat(4), 'red 1, blue 2, red 3, blue 4, red 1, blue 2'),
    priority: fc.constantFrom<Priority>('interactive', 'interactive', 'live', 'background'),
    branches: fc.array(
      fc.record({
        question: fc.constantFrom('', 'Once more?'),
        n: fc.constantFrom(1, 1, 2),
        maxTokens: fc.constantFrom(0, 1, 20, 60),
        sampling: fc.constantFrom(GREEDY, REPEATING, { ...GREEDY, temperature: 0.8, topP: 0.9 }),
        constraint: fc.constantFrom(undefined, undefined, CONSTRAINT),
      }),
      { minLength: 1, maxLength: 2 },
    ),
  }),
  /** Calls of `step` before the next request. */
  pause: fc.nat(6),
  /** Calls of `step` before it is aborted, if it is. */
  patience: fc.constantFrom(null, null, 0, 1, 4, 12),
})

type Drawn = typeof request extends fc.Arbitrary<infer T> ? T : never

/** More requests than fit. */
const BUSY = Array.from(
  { length: 5 },
  (_, i): Drawn => ({
    work: {
      organisation: i % 2 === 0 ? 'a' : 'b',
      text: 'one two three four five '.repeat(4),
      priority: 'interactive',
      branches: [{ question: 'Once more?', n: 2, maxTokens: 60, sampling: REPEATING, constraint: undefined }],
    },
    pause: 2,
    patience: i === 4 ? 12 : null,
  }),
)

const workOf = ({ organisation, text, priority, branches }: Drawn['work']): Work => ({
  organisation,
  priority,
  prefix: [trusted('<|im_start|>user\n'), untrusted(text)],
  branches: branches.map(({ question, constraint, ...fields }) =>
    branch({
      ...fields,
      suffix: [untrusted(question), trusted('<|im_end|>\n<|im_start|>assistant\n')],
      ...(constraint === undefined ? {} : { constraint }),
    }),
  ),
})

interface Play {
  readonly scoringSteps: number
  readonly hold: boolean
  /** Without aborts, if false. */
  readonly aborts: boolean
  readonly mayRun?: () => boolean
}

function play(requests: readonly Drawn[], { scoringSteps, hold, aborts, mayRun = () => true }: Play) {
  const client = new Client()
  const scheduler = createScheduler(client.receive)
  scheduler.attach(new FakeScorer(scoringSteps, PRIORITIES[scoringSteps % 3]!, mayRun))
  const due = new Map<number, number>()
  const step = () => {
    for (const [id, left] of due) {
      due.set(id, left - 1)
      if (left > 0) continue
      due.delete(id)
      scheduler.abort(id)
      client.abort(id)
    }
    return scheduler.step(hold)
  }
  for (const [id, { work, pause, patience }] of requests.entries()) {
    scheduler.submit(id, workOf(work))
    if (aborts && patience !== null) due.set(id, patience)
    for (let steps = 0; steps < pause; steps++) step()
  }
  while (step() || due.size > 0);
  const { stats } = scheduler
  expect(stats).toMatchObject({ running: 0, waiting: 0, usedCells: 0, usedSequences: 0 })
  return { told: requests.map((_, id) => client.of(id)), preemptions: stats.preemptions }
}

describe('while a device computes a step', () => {
  const log: string[] = []
  const hooks: DeviceHooks = { launched: () => log.push('launched'), waited: () => log.push('ended') }
  const send = (message: FromEngine) => {
    if (message.type !== 'events') log.push(`${message.type} ${'id' in message ? message.id : ''}`)
    else for (const { id, last } of message.requests) log.push(`${last ? 'last' : 'text'} ${id}`)
  }
  const take = () => log.splice(0)

  test('the results of the previous step are sent, and requests enter the queue', () =>
    computesApart(
      loaded,
      () => {
        const scheduler = createScheduler(send)
        scheduler.submit(1, ask('One.', 4))
        scheduler.step()
        expect(take()).toEqual(['admitted 1', 'launched'])
        scheduler.step()
        expect(take()).toEqual(['ended', 'launched', 'text 1'])
        scheduler.submit(2, ask('Two.', 1))
        expect(scheduler.stats).toMatchObject({ running: 1, waiting: 1 })
        scheduler.step()
        expect(take()).toEqual(['admitted 2', 'ended', 'launched', 'text 1'])
        scheduler.step()
        // It waited for the rest of one step, and was in the next.
        expect(take()).toEqual(['ended', 'launched', 'text 1', 'last 2'])
        expect(scheduler.step()).toBe(false)
        expect(take()).toEqual(['ended', 'last 1'])
      },
      hooks,
    ))

  test('an abort takes effect when the step ends', () =>
    computesApart(
      loaded,
      () => {
        const scheduler = createScheduler(send)
        scheduler.submit(1, ask('One.', 100))
        scheduler.submit(2, ask('Two.', 2))
        scheduler.step()
        scheduler.step()
        take()
        scheduler.abort(1)
        // This step ends it.
        scheduler.abort(2)
        expect(scheduler.stats.running).toBe(2)
        expect(scheduler.step()).toBe(false)
        expect(take()).toEqual(['ended'])
        expect(scheduler.stats).toMatchObject({ running: 0, usedCells: 0, usedSequences: 0 })
      },
      hooks,
    ))

  test('none of its results are lost when the engine closes', () =>
    computesApart(
      loaded,
      async () => {
        const scheduler = createScheduler(send)
        scheduler.submit(1, ask('One.', 1))
        scheduler.step(true)
        await scheduler.close(0)
        expect(take()).toEqual(['admitted 1', 'launched', 'ended', 'last 1'])
      },
      hooks,
    ))

  test('an arriving request is answered, and an aborted one is dropped', async () => {
    const client = new Client()
    let turns = 0
    const ended = Promise.withResolvers<void>()
    const receive = async (until: number) => {
      // Never for longer than the device certainly needs.
      expect(until).toBeLessThan(performance.now() + 100)
      turns++
      if (turns === 3) {
        scheduler.submit(2, ask('Two.', 3))
        expect(client.of(2).isAdmitted).toBe(true)
      }
      if (turns === 5) {
        scheduler.abort(1)
        client.abort(1)
      }
      await Promise.resolve()
    }
    const scheduler: Scheduler = createScheduler(
      (message) => {
        client.receive(message)
        if (client.of(2).isEnded || client.of(2).hasFailed || client.of(1).hasFailed) ended.resolve()
      },
      { receive },
    )
    await computesApart(loaded, async () => {
      scheduler.submit(1, { ...ask('One.', 0), branches: [endless(1)] })
      await ended.promise
    })
    expect(turns).toBeLessThan(9)
    expect(client.of(1).isEnded).toBe(false)
    expect(scheduler.stats).toMatchObject({ running: 0, usedCells: 0 })
  })
})

test('with arrivals, failures and aborts, each request gets the same messages as on a CPU', async () => {
  const total = { ended: 0, failed: 0, cut: 0, preemptions: 0 }
  const failures = fc.array(fc.nat(40), { maxLength: 2 })
  const property = fc.asyncProperty(
    fc.array(request, { minLength: 1, maxLength: 6 }),
    failures,
    fc.nat(3),
    fc.boolean(),
    async (requests, failing, scoringSteps, hold) => {
      // Held text is sent with later text at the latest.
      const expected = play(requests, { scoringSteps, hold, aborts: false })
      let [waits, launches] = [0, 0]
      let isBusy = false
      const hooks: DeviceHooks = {
        launched: () => {
          if (failing[0] === launches++) throw new Error('The device refuses.')
          isBusy = true
        },
        waited: () => {
          isBusy = false
          if (failing[1] === waits++) throw new Error('The device fails.')
        },
      }
      const mayRun = () => !isBusy
      const apart = await computesApart(
        loaded,
        () => play(requests, { scoringSteps, hold, aborts: true, mayRun }),
        hooks,
      )
      total.preemptions += apart.preemptions
      for (const [id, told] of apart.told.entries()) {
        const whole = repliesOf(expected.told[id]!)
        const got = repliesOf(told)
        if (told.isEnded) {
          expect(got).toEqual(whole)
          total.ended++
          continue
        }
        expect(told.hasFailed ? failing.length > 0 : requests[id]!.patience !== null).toBe(true)
        for (const [key, { text, end }] of Object.entries(got)) {
          expect(whole[key]!.text.startsWith(text)).toBe(true)
          expect(end === null || expect(end).toEqual(whole[key]!.end)).not.toBe(false)
        }
        if (told.hasFailed) total.failed++
        else total.cut++
      }
    },
  )
  // Until each kind of end has occurred.
  do await fc.assert(property, { numRuns: 4, examples: [[BUSY, [30, 3], 2, false]] })
  while (Object.values(total).includes(0))
})
