import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { compileDeviceChoice, type DeviceOnHost, onDevice } from '../../../../test/support/device-choice.ts'
import { computesApart, loadExact } from '../../../../test/support/exact-model.ts'
import { hasAvx2 } from '../../../../test/support/kernels-alone.ts'
import { branch, GREEDY, REPEATING, trusted, untrusted } from '../../../../test/support/local-engine.ts'
import type { Constraint } from '../../contract/constraint.ts'
import type { FinishEvent, TokenLogProb } from '../../contract/generation.ts'
import type { LocalStats } from '../../contract/stats.ts'
import type { Sampling, Work } from '../../contract/work.ts'
import type { Context } from '../native/context.ts'
import { loadNativeLibraries, type NativeLibraries } from '../native/libraries.ts'
import { locateNativeLibraries } from '../native/native-paths.ts'
import type { FromEngine } from '../protocol.ts'
import { BatchSplitter, type StepTime } from './batch/batch-splitter.ts'
import type { LoadedModel } from './loaded-model.ts'
import { Scheduler } from './scheduler.ts'

const SEQUENCES = 6
/** By these times, further rows cost nothing, so every draft is verified. */
const FREE_ROWS: readonly StepTime[] = [
  { rows: 1, ms: 1 },
  { rows: 64, ms: 1 },
]
const CACHE_BYTES = 2 ** 20
const WARM: Sampling = { ...GREEDY, temperature: 0.8, topP: 0.9 }
const SAMPLINGS: readonly Sampling[] = [
  GREEDY,
  REPEATING,
  WARM,
  { ...GREEDY, temperature: 1.2, topK: 4 },
  { ...GREEDY, frequencyPenalty: 0.5, presencePenalty: 0.2 },
]
const CONSTRAINTS: readonly (Constraint | undefined)[] = [
  undefined,
  undefined,
  { type: 'regex', pattern: '(one two three four five ){1,9}done' },
  { type: 'regex', pattern: '[a-z ]{0,40}' },
  {
    type: 'json_schema',
    schema: {
      type: 'array',
      minItems: 3,
      maxItems: 4,
      items: {
        type: 'object',
        properties: { colour: { enum: ['red', 'blue'] }, count: { type: 'integer', minimum: 0, maximum: 9 } },
        required: ['colour', 'count'],
        additionalProperties: false,
      },
    },
  },
]

async function load(libraries: NativeLibraries = native): Promise<LoadedModel> {
  // Few enough cells that sequences are preempted.
  const model = await loadExact({ cells: 256, maxSequences: SEQUENCES, prefixCacheBytes: CACHE_BYTES }, libraries)
  for (const constraint of CONSTRAINTS) if (constraint) await model.constraints.prepare(constraint, 'test')
  return model
}

const native = loadNativeLibraries(locateNativeLibraries())
let loaded: LoadedModel

beforeAll(async () => {
  loaded = await load()
})

afterAll(() => loaded?.close())

interface TimedWork {
  readonly work: Work
  /** Steps before the next one. */
  readonly pause: number
}

interface Played {
  readonly texts: ReadonlyMap<string, string>
  readonly logProbs: ReadonlyMap<string, readonly TokenLogProb[]>
  readonly finishes: ReadonlyMap<string, FinishEvent>
  readonly stats: LocalStats
  readonly steps: number
}

/** Computes requests that arrive some steps apart. */
function play(model: LoadedModel, works: readonly TimedWork[], speculation: boolean, prefixCacheBytes = 0): Played {
  const sent: FromEngine[] = []
  const splitter = new BatchSplitter(FREE_ROWS, SEQUENCES, model.context.batch.capacity)
  const settings = { maxWaiting: 100, prefixCacheBytes, speculation, seed: 1 }
  const scheduler = new Scheduler(model, splitter, settings, (message) => sent.push(message))
  let steps = 0
  for (const [id, { work, pause }] of works.entries()) {
    scheduler.submit(id, work)
    for (let step = 0; step < pause; step++) if (scheduler.step()) steps++
  }
  while (scheduler.step()) steps++
  const { stats } = scheduler
  const texts = new Map<string, string>()
  const finishes = new Map<string, FinishEvent>()
  const tokens = new Map<string, number>()
  const logProbs = new Map<string, readonly TokenLogProb[]>()
  for (const message of sent) {
    expect(message.type).not.toBe('error')
    if (message.type !== 'events') continue
    for (const { id, events } of message.requests) {
      for (const event of events) {
        if (event.type === 'error') throw event.error
        const key = `${id}.${event.branch}.${event.completion}`
        if (event.type === 'finish') finishes.set(key, event)
        else {
          texts.set(key, (texts.get(key) ?? '') + event.text)
          tokens.set(key, (tokens.get(key) ?? 0) + event.tokens)
          if (event.logProbs !== undefined) logProbs.set(key, [...(logProbs.get(key) ?? []), ...event.logProbs])
        }
      }
    }
  }
  // Tokens without text may come last.
  for (const [key, count] of tokens) expect(count).toBeLessThanOrEqual(finishes.get(key)!.completionTokens)
  for (const [key, entries] of logProbs) expect(entries).toHaveLength(tokens.get(key)!)
  expect(stats).toMatchObject({ running: 0, waiting: 0, usedCells: 0, usedSequences: 0 })
  return { texts, logProbs, finishes, stats, steps }
}

const request = fc.record({
  organisation: fc.constantFrom('a', 'b'),
  text: fc.constantFrom(
    'one two three four five '.repeat(4),
    'red 1, blue 2, red 3, blue 4, red 1, blue 2',
    'Say it again: a cat and a dog and a cat and a dog',
  ),
  branches: fc.array(
    fc.record({
      question: fc.constantFrom('', 'Once more?', 'Where is the cat and a dog?'),
      n: fc.constantFrom(1, 1, 2, 3),
      maxTokens: fc.constantFrom(0, 1, 2, 30, 60),
      sampling: fc.constantFrom(...SAMPLINGS),
      constraint: fc.constantFrom(...CONSTRAINTS),
      thinks: fc.constantFrom(false, false, true),
      topLogProbs: fc.constantFrom(undefined, 0, 1, 3),
    }),
    { minLength: 1, maxLength: 3 },
  ),
  pause: fc.nat(12),
})

type DrawnRequest = typeof request extends fc.Arbitrary<infer Drawn> ? Drawn : never

/** More requests than fit, and replies that repeat the prompt, in every run. */
const BUSY = Array.from(
  { length: 5 },
  (_, i): DrawnRequest => ({
    organisation: i % 2 === 0 ? 'a' : 'b',
    text: 'one two three four five '.repeat(4),
    branches: SAMPLINGS.slice(0, 3).map((sampling) => ({
      question: 'Once more?',
      n: 3,
      maxTokens: 60,
      sampling,
      constraint: undefined,
      thinks: false,
      topLogProbs: 1,
    })),
    pause: i,
  }),
)

/** Requests whose drafts are wrong where the constraint ends the repetition. */
const REFUSED = BUSY.map(({ branches, ...fields }) => ({
  ...fields,
  branches: branches.map((one) => ({ ...one, constraint: CONSTRAINTS[2] })),
}))

function worksOf(requests: readonly DrawnRequest[]): TimedWork[] {
  return requests.map(({ organisation, text, branches, pause }) => ({
    pause,
    work: {
      organisation,
      prefix: [trusted('<|im_start|>user\n'), untrusted(text)],
      branches: branches.map(({ question, constraint, thinks, topLogProbs, ...fields }) =>
        branch({
          ...fields,
          suffix: [untrusted(question), trusted('<|im_end|>\n<|im_start|>assistant\n')],
          ...(constraint === undefined ? {} : { constraint }),
          ...(thinks ? { thought: { end: '</think>', closing: '\n</think>\n\n', budget: 12 } } : {}),
          ...(topLogProbs === undefined ? {} : { topLogProbs }),
        }),
      ),
    },
  }))
}

test('with drafts, on CPUs and devices, requests get the texts, log-probabilities and ends that they get without', async () => {
  const total = { drafted: 0, accepted: 0, preemptions: 0, saved: 0, rated: 0 }
  await fc.assert(
    fc.asyncProperty(fc.array(request, { minLength: 1, maxLength: 5 }), async (requests) => {
      const works = worksOf(requests)
      const plain = play(loaded, works, false)
      const drafted = play(loaded, works, true)
      const apart = await computesApart(loaded, () => play(loaded, works, true))
      expect(plain.stats.draftedTokens).toBe(0)
      expect(drafted.texts).toEqual(plain.texts)
      expect(JSON.stringify([...drafted.logProbs].sort())).toBe(JSON.stringify([...plain.logProbs].sort()))
      expect(drafted.finishes).toEqual(plain.finishes)
      expect([apart.texts, apart.finishes]).toEqual([plain.texts, plain.finishes])
      expect(JSON.stringify([...apart.logProbs].sort())).toBe(JSON.stringify([...plain.logProbs].sort()))
      expect(drafted.stats.decodedTokens).toBe(plain.stats.decodedTokens)
      expect(drafted.stats.acceptedTokens).toBeLessThanOrEqual(drafted.stats.draftedTokens)
      total.drafted += drafted.stats.draftedTokens
      total.accepted += drafted.stats.acceptedTokens
      total.preemptions += drafted.stats.preemptions
      total.saved += plain.steps - drafted.steps
      total.rated += drafted.logProbs.size
    }),
    { numRuns: 7, examples: [[BUSY], [REFUSED]] },
  )
  // How many depends on measured times.
  expect(total.accepted).toBeGreaterThan(10)
  expect(total.drafted).toBeGreaterThan(total.accepted)
  expect(total.preemptions).toBeGreaterThan(0)
  expect(total.saved).toBeGreaterThan(0)
  expect(total.rated).toBeGreaterThan(0)
})

describe.skipIf(!hasAvx2())('where a device keeps the logits', () => {
  let onHost: DeviceOnHost
  let model: LoadedModel
  beforeAll(async () => {
    onHost = await compileDeviceChoice()
    model = await load(onDevice(native, onHost))
  })
  afterAll(() => model?.close())

  test('every request gets the same as from the CPU, and few rows are fetched', { timeout: 300_000 }, () => {
    fc.assert(
      fc.property(fc.array(request, { minLength: 1, maxLength: 2 }), (requests) => {
        const works = worksOf(requests)
        const cpu = play(loaded, works, true)
        const device = play(model, works, true)
        expect(device.texts).toEqual(cpu.texts)
        expect(rounded(device.logProbs)).toEqual(rounded(cpu.logProbs))
        expect(rounded(device.finishes)).toEqual(rounded(cpu.finishes))
        expect(device.stats.decodedTokens).toBe(cpu.stats.decodedTokens)
      }),
      { numRuns: 4 },
    )
    // Rows with a constraint after a draft are fetched, so how many of drawn requests are depends on the draw.
    const counts = countRows(model.context)
    play(model, worksOf(BUSY), true)
    expect(counts.answered).toBeGreaterThan(100)
    expect(counts.fetched).toBeLessThan(counts.answered / 2)
  })
})

/** Counts choices, and rows that had to be fetched for them. */
function countRows(context: Context): { answered: number; fetched: number } {
  const counts = { answered: 0, fetched: 0 }
  const [choose, logits] = [context.choose.bind(context), context.logits.bind(context)]
  let isChoosing = false
  context.choose = (row, ask) => {
    isChoosing = true
    counts.answered++
    const chosen = choose(row, ask)
    isChoosing = false
    return chosen
  }
  context.logits = (row) => {
    if (isChoosing) counts.fetched++
    return logits(row)
  }
  return counts
}

/** Sums are computed in another order. */
function rounded(values: Iterable<unknown>): unknown {
  const round = (_: string, value: unknown) => (typeof value === 'number' ? Math.round(value * 1e9) / 1e9 + 0 : value)
  return JSON.parse(JSON.stringify([...values].sort(), round))
}

test('the next turn of a chat continues a reply that was drafted, as far as it is in the KV cache', async () => {
  const parts = (text: string) => [
    trusted('<|im_start|>user\n'),
    untrusted(text),
    trusted('<|im_end|>\n<|im_start|>assistant\n'),
  ]
  const turn = (prefix: Work['prefix']): TimedWork => ({
    work: { organisation: 'test', prefix, branches: [branch({ maxTokens: 60, sampling: REPEATING })] },
    pause: 200,
  })
  const question = parts('red 1, blue 2, red 3, blue 4, red 1')
  const first = turn(question)
  const reply = play(loaded, [first], false).texts.get('0.0.0')!
  const second = turn([...question, untrusted(reply), ...parts('red 3, blue 4, red 1')])
  const plain = play(loaded, [first, second], false)
  const played: Played[] = []
  for (const speculation of [false, true]) {
    const fresh = await load()
    played.push(play(fresh, [first, second], speculation, CACHE_BYTES))
    await fresh.close()
  }
  const [cached, drafted] = played as [Played, Played]
  expect([cached.texts, drafted.texts]).toEqual([plain.texts, plain.texts])
  expect(drafted.stats.acceptedTokens).toBeGreaterThan(80)
  expect(drafted.stats.reusedTokens).toBe(cached.stats.reusedTokens)
  expect(drafted.stats.reusedTokens).toBeGreaterThan(20)
})
