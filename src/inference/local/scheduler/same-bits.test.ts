import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { writeGguf } from '../../../../test/support/gguf-writer.ts'
import { branch, GREEDY, picture, trusted, untrusted } from '../../../../test/support/local-engine.ts'
import { shippedSettings } from '../../../../test/support/shipped-settings.ts'
import { languageModel } from '../../../../test/support/tiny-models/language.ts'
import { loraOf } from '../../../../test/support/tiny-models/lora.ts'
import { mediaOf } from '../../../../test/support/tiny-models/prompts.ts'
import {
  CHAT_ML,
  CHAT_ML_TEMPLATE,
  CHAT_ML_TOKENS,
  type TinyModel,
  writeTinyModel,
} from '../../../../test/support/tiny-models/tiny-model.ts'
import { TINY_MODELS } from '../../../../test/support/tiny-models/tiny-models.ts'
import { bytePairs } from '../../../../test/support/tiny-models/vocabulary.ts'
import type { TypeRule, WeightType } from '../../../../test/support/tiny-models/weights.ts'
import { seededRandom } from '../../../doctor/random.ts'
import type { MediaPart, PromptPart } from '../../contract/parts.ts'
import type { LocalStats } from '../../contract/stats.ts'
import type { Branch, Work } from '../../contract/work.ts'
import { KvCache } from '../cache/kv-cache.ts'
import { PrefixCache } from '../cache/prefix-cache.ts'
import { loadNativeLibraries, type NativeLibraries } from '../native/libraries.ts'
import { locateNativeLibraries } from '../native/native-paths.ts'
import type { EngineSettings, FromEngine } from '../protocol.ts'
import { openDisk } from '../worker/open-disk.ts'
import { BatchSplitter, type StepTime } from './batch/batch-splitter.ts'
import { PrefillPace } from './batch/prefill-pace.ts'
import { LoadedModel } from './loaded-model.ts'
import { Scheduler } from './scheduler.ts'
import { seedOf } from './sequences/sequence-sampler.ts'

/**
 * No bit of a log-probability depends on the scheduler: on the batch, on the bounds of prefill steps, on cached prefixes and
 * their source, on preemption, drafts or shared prompts, or on the number of threads.
 */

const SEQUENCES = 16
const MOST_THREADS = 4
const BATCH_ROWS = 512
/** Log-probabilities compared for each token of a reply. Each of them includes the sum over the vocabulary. */
const RANKED = 5
const CACHE_BYTES = 2 ** 24
/** By the first, further rows cost nothing, so every draft is verified. By the second, a step has four rows at most. */
const STEP_TIMES: readonly (readonly StepTime[])[] = [
  [
    { rows: 1, ms: 1 },
    { rows: 64, ms: 1 },
  ],
  [
    { rows: 1, ms: 1 },
    { rows: 4, ms: 1.2 },
    { rows: 5, ms: 9 },
  ],
]

/** A model, and how its prompts are written. */
interface Subject {
  readonly name: string
  /** Requests are drawn, beside those that are the same for all subjects. */
  readonly isDrawn: boolean
  /** Its prefixes are read from disk, too. What is there does not depend on the types of matrices. */
  readonly isStored: boolean
  readonly turn: TinyModel['turn']
  readonly media: readonly MediaPart[]
  /** Names of its adapters. */
  readonly adapters?: readonly string[]
  write(): Promise<Partial<EngineSettings>>
}

const vocabulary = bytePairs({
  control: CHAT_ML_TOKENS,
  texts: ['\n\n'],
  addsBos: false,
  chatTemplate: CHAT_ML_TEMPLATE,
})

/** Four query heads to a key head. Matrices take the types in turn; one type for all, also for those of experts. */
function matricesOf(types: readonly WeightType[], experts?: number): TinyModel {
  const name = types.length > 1 ? `all types, from ${types[0]} on` : types[0]!
  const typeOf: TypeRule = (tensor, shape) => {
    if (shape.length === 1 || /norm|gate_inp/.test(tensor)) return 'F32'
    const [, layer = 0, part = ''] = /^blk\.(\d+)\.([a-z_]+?)(?:_exps)?\.weight$/.exec(tensor) ?? []
    return types[(Number(layer) * PARTS.length + Math.max(0, PARTS.indexOf(part))) % types.length]!
  }
  return {
    name: experts === undefined ? name : `experts in ${name}`,
    // What a card must have. It names no encoder, so nothing else follows from it.
    family: 'qwen3-vl',
    about: `matrices in ${name}`,
    language: () =>
      languageModel({
        architecture: experts === undefined ? 'qwen3' : 'qwen3moe',
        vocabulary,
        seed: `same bits ${name}`,
        shape: { embedding: 256, heads: 8, kvHeads: 2, head: 64, feedForward: 512 },
        typeOf,
        qkNorm: true,
        experts,
      }),
    turn: CHAT_ML,
  }
}

function tiny(
  model: TinyModel,
  { name = model.name, isStored = false, ...settings }: Partial<EngineSettings & Subject> = {},
): Subject {
  const write = async (): Promise<Partial<EngineSettings>> => {
    const { engine, directory, image } = await writeTinyModel(model, folder)
    const projector = engine.projector === undefined ? null : join(directory, engine.projector)
    return { model: join(directory, engine.model), projector, image: image ?? null, cells: 2048, ...settings }
  }
  const isFamily = FAMILIES.includes(name)
  return {
    name,
    isDrawn: isFamily,
    isStored: isFamily || isStored,
    turn: model.turn,
    media: mediaOf(model) ?? [],
    write,
  }
}

/** Adapters of several types, of which requests draw one, or none. */
function adapted(model: TinyModel, isStored = false): Subject {
  const subject = tiny(model, { name: `${model.name} with adapters`, isStored })
  const write = async () => {
    const adapters = ADAPTERS.map((type) => ({
      name: type,
      path: join(folder, `${model.name}-${type}.gguf`),
      scale: 0.5,
    }))
    for (const { name: type, path } of adapters) await writeGguf(path, loraOf(model.language(), { seed: type, type }))
    return { ...(await subject.write()), adapters }
  }
  return { ...subject, isDrawn: true, adapters: ADAPTERS, write }
}

/** Its encoder is large enough to pause. */
const SHIPPED: Subject = {
  name: 'the shipped model',
  isDrawn: true,
  isStored: true,
  turn: CHAT_ML,
  media: [picture(256, 256, 1), picture(256, 256, 2)],
  // It reads most words as several tokens.
  write: () => shippedSettings({ encoder: true, cells: 4096 }),
}
const ADAPTERS = ['F32', 'F16'] as const
const TYPES = ['Q4_0', 'Q5_0', 'Q8_0', 'Q4_K', 'Q5_K', 'Q6_K', 'F16', 'BF16', 'F32'] as const
/** Matrices of a layer. */
const PARTS = ['attn_q', 'attn_k', 'attn_v', 'attn_output', 'ffn_gate', 'ffn_up', 'ffn_down']
/** Where models begin with the types, so that each type has rows of both lengths. */
const BEGINNINGS_OF_TYPES = [0, 4, 8]
const EXPERTS = 6
/** M-RoPE and experts; a sliding window, and images whose tokens attend to each other; short convolutions; a delta net. */
const FAMILIES = ['qwen3vl-moe', 'gemma3', 'lfm2-vl', 'qwen3.5']
const SUBJECTS: readonly Subject[] = [
  ...BEGINNINGS_OF_TYPES.map((at) => tiny(matricesOf([...TYPES.slice(at), ...TYPES.slice(0, at)]))),
  tiny(matricesOf(['Q4_K'], EXPERTS)),
  tiny(matricesOf(['Q8_0']), { kvType: 'q8_0', name: 'Q8_0 with a KV cache in it', isStored: true }),
  adapted(matricesOf(['Q4_0']), true),
  adapted(matricesOf(['Q8_0'], EXPERTS)),
  ...TINY_MODELS.filter(({ name }) => FAMILIES.includes(name)).map((model) => tiny(model)),
  SHIPPED,
]

let folder: string
let libraries: NativeLibraries
const encoder = { pauses: false }
const total = { accepted: 0, preempted: 0, found: 0, restored: 0, paused: 0, fromDisk: 0 }

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lookout-same-bits-'))
  const native = loadNativeLibraries(locateNativeLibraries())
  const { llama } = native
  const mtmd = native.mtmd!
  const restore: typeof llama.state_seq_set_data = (...args) => {
    total.restored++
    return llama.state_seq_set_data(...args)
  }
  const run: typeof mtmd.encoder_run = (state, chunk, ms, ...output) => {
    const code = mtmd.encoder_run(state, chunk, encoder.pauses ? 0 : ms, ...output)
    if (code !== 0) total.paused++
    return code
  }
  libraries = {
    ...native,
    llama: { ...llama, state_seq_set_data: restore },
    mtmd: { ...mtmd, encoder_run: run },
  }
})
afterAll(() => rm(folder, { recursive: true, force: true }))

async function load(written: Partial<EngineSettings>, fields: Partial<EngineSettings> = {}) {
  const own = { maxSequences: SEQUENCES, threads: MOST_THREADS, prefixCacheBytes: CACHE_BYTES }
  const settings = await shippedSettings({ ...written, ...own, ...fields })
  return { loaded: new LoadedModel(libraries, settings), settings }
}

interface Request extends Pick<Work, 'organisation' | 'prefix' | 'priority' | 'adapter'> {
  readonly branches: readonly (Pick<Branch, 'suffix' | 'n' | 'maxTokens' | 'sampling'> & { readonly seed: number })[]
  /** Steps before the next one. */
  readonly pause: number
}

/** How requests are computed. */
interface Ways {
  readonly speculation: boolean
  readonly prefixCacheBytes: number
  /** Cells of a piece of a copied sequence, at most. */
  readonly pieceCells: number
  readonly stepTimes: readonly StepTime[]
  /** Share of the cells that may be used. */
  readonly room: number
  /** Threads of the next step. */
  threads(): number
  /** Rows of the next part of a prompt. */
  rows(): number
  readonly pausesEncoder: boolean
}

const ALONE: Ways = {
  speculation: false,
  prefixCacheBytes: 0,
  pieceCells: Number.POSITIVE_INFINITY,
  stepTimes: STEP_TIMES[0]!,
  room: 1,
  threads: () => 1,
  rows: () => BATCH_ROWS,
  pausesEncoder: false,
}

interface Reply {
  text: string
  /** Log-probabilities of its tokens, in order: as JSON, which has all digits. */
  logProbs: string
}

interface Played {
  /** By "request.branch.completion". */
  readonly replies: ReadonlyMap<string, Reply>
  readonly stats: LocalStats
}

/** Computes requests in a cache that is empty at first. @param diskOf opens the prefixes on disk. */
async function play(
  loaded: LoadedModel,
  requests: readonly Request[],
  ways: Ways,
  diskOf: () => ReturnType<typeof openDisk> = () => null,
): Promise<Played> {
  const { context, model } = loaded
  const { speculation, prefixCacheBytes, stepTimes, room } = ways
  context.clear()
  // Ended work stays in the previous one.
  const { usedSequences, freeSequences } = loaded.kv
  const kv = new KvCache(context, usedSequences + freeSequences, model.cuttablePositions)
  Object.assign(kv, { capacity: Math.floor(room * context.cells) })
  Object.assign(loaded, { kv })
  const setThreads = context.setThreads.bind(context)
  const threads = vi.spyOn(context, 'setThreads').mockImplementation(() => setThreads(ways.threads()))
  const pace = vi.spyOn(PrefillPace.prototype, 'rowsWithin').mockImplementation(() => ways.rows())
  const { begin } = PrefixCache.prototype
  const copies = vi.spyOn(PrefixCache.prototype, 'begin').mockImplementation(function (this: PrefixCache, ...args) {
    const copy = begin.apply(this, args)
    return copy === null || copy.isExact ? copy : { ...copy, pieceCells: Math.min(copy.pieceCells, ways.pieceCells) }
  })
  encoder.pauses = ways.pausesEncoder
  const replies = new Map<string, Reply>()
  let unfinished = requests.length
  const send = (message: FromEngine) => {
    if (message.type === 'error') throw new Error(JSON.stringify(message.error))
    for (const { id, events, last } of message.type === 'events' ? message.requests : []) {
      if (last) unfinished--
      for (const event of events) {
        if (event.type === 'error') throw event.error
        const key = `${id}.${event.branch}.${event.completion}`
        const reply = replies.get(key) ?? { text: '', logProbs: '' }
        replies.set(key, reply)
        if (event.type === 'finish') continue
        reply.text += event.text
        reply.logProbs += event.logProbs!.map((token) => `${JSON.stringify(token)}\n`).join('')
      }
    }
  }
  const splitter = new BatchSplitter(stepTimes, SEQUENCES, context.batch.capacity)
  const settings = { maxWaiting: 100, prefixCacheBytes, speculation, seed: 1 }
  const disk = diskOf()
  const scheduler = new Scheduler(loaded, splitter, settings, send, { disk })
  for (const [id, { pause, branches, ...work }] of requests.entries()) {
    scheduler.submit(id, {
      ...work,
      branches: branches.map(({ seed, sampling, ...fields }) =>
        branch({ ...fields, sampling: { ...sampling, seed }, topLogProbs: RANKED }),
      ),
    })
    for (let step = 0; step < pause && scheduler.step(); step++);
  }
  while (unfinished > 0) if (!scheduler.step()) await nextTurn()
  while (scheduler.step());
  const { stats } = scheduler
  if (disk !== null) await scheduler.close(10_000)
  threads.mockRestore()
  pace.mockRestore()
  copies.mockRestore()
  return { replies, stats }
}

/** Each reply computed alone, without a shared prompt. */
class Alone {
  readonly #known = new Map<string, Reply>()
  readonly #loaded: LoadedModel

  constructor(loaded: LoadedModel) {
    this.#loaded = loaded
  }

  async of({ prefix, branches, adapter }: Request, branchIndex: number, index: number): Promise<Reply> {
    const { suffix, seed, ...fields } = branches[branchIndex]!
    // A greedy reply has no use for a seed.
    const own = fields.sampling.temperature === 0 ? 0 : seedOf(seed, index)
    const only = { ...fields, suffix: [], n: 1, seed: own }
    const whole = [...prefix, ...suffix]
    const request: Request = { organisation: 'alone', prefix: whole, branches: [only], adapter, pause: 0 }
    const key = JSON.stringify(request, (_, value) => (value instanceof Uint8Array ? value[BATCH_ROWS] : value))
    let reply = this.#known.get(key)
    if (reply === undefined) {
      const { replies } = await play(this.#loaded, [request], ALONE)
      reply = replies.get('0.0.0')!
      this.#known.set(key, reply)
    }
    return reply
  }

  /** Expects all replies to equal those computed alone. */
  async expect(requests: readonly Request[], { replies }: Played): Promise<void> {
    const count = requests.reduce((sum, { branches }) => sum + branches.reduce((all, { n }) => all + n, 0), 0)
    expect(replies.size).toBe(count)
    for (const [key, reply] of replies) {
      const [id, branchIndex, index] = key.split('.').map(Number) as [number, number, number]
      expect(reply, `request.branch.completion ${key}`).toEqual(await this.of(requests[id]!, branchIndex, index))
    }
  }
}

const WORDS = [...'bdfgklmnprst'].flatMap((consonant) => [...'aiou'].map((vowel) => ` ${consonant}${vowel}`))

/** Words of one token each. */
function words(seed: number, count: number): string {
  const random = seededRandom(seed)
  return Array.from({ length: count }, () => WORDS[Math.floor(random() * WORDS.length)]).join('')
}

/** Common prefixes of prompts. The second repeats itself, so that replies are drafted. */
const BEGINNINGS = [words(1, 640), words(2, 16).repeat(40), words(3, 640)]
const LETTERS_OF_WORD = WORDS[0]!.length

const drawnRequest = fc.record({
  organisation: fc.constantFrom<string>('a', 'a', 'b'),
  beginning: fc.nat(BEGINNINGS.length - 1),
  shared: fc.constantFrom<number>(0, 7, 30, 31, 100, 190, 500),
  media: fc.nat(2),
  adapter: fc.nat(2),
  own: fc.nat(40),
  seed: fc.nat(3),
  branches: fc.array(
    fc.record({
      own: fc.nat(20),
      n: fc.constantFrom<number>(1, 1, 1, 2, 3),
      maxTokens: fc.constantFrom<number>(1, 2, 16, 24, 32),
      temperature: fc.constantFrom<number>(0, 0.1, 1),
      seed: fc.nat(3),
    }),
    { minLength: 1, maxLength: 3 },
  ),
  isTurn: fc.boolean(),
  priority: fc.constantFrom('interactive', 'interactive', 'live', 'background'),
  pause: fc.constantFrom<number>(0, 1, 2, 5, 12, 60),
})
type DrawnRequest = typeof drawnRequest extends fc.Arbitrary<infer Drawn> ? Drawn : never

const drawnWays = fc.record({
  speculation: fc.boolean(),
  isCached: fc.boolean(),
  pieceCells: fc.constantFrom<number>(20, 100, Number.POSITIVE_INFINITY),
  stepTimes: fc.constantFrom(...STEP_TIMES),
  room: fc.constantFrom<number>(0.6, 1),
  mostThreads: fc.constantFrom<number>(1, MOST_THREADS),
  mostRows: fc.constantFrom<number>(1, 3, 20, 100, BATCH_ROWS),
  pausesEncoder: fc.boolean(),
  seed: fc.nat(),
})
type DrawnWays = typeof drawnWays extends fc.Arbitrary<infer Drawn> ? Drawn : never

/** More requests than fit, with many shared prefixes. */
const BUSY: readonly [DrawnRequest[], DrawnWays] = [
  Array.from({ length: 10 }, (_, at) => ({
    organisation: 'a',
    beginning: at % 3 === 0 ? 0 : 1,
    shared: [510, 100, 31][at % 3]!,
    media: at % 3,
    adapter: at % 3,
    own: at,
    seed: at % 2,
    branches: Array.from({ length: 1 + (at % 3) }, (_, own) => ({
      own,
      n: 1 + (at % 2),
      maxTokens: 24,
      temperature: 0,
      seed: at,
    })),
    isTurn: at % 4 === 3,
    priority: at < 2 ? 'background' : 'interactive',
    pause: at === 6 ? 1000 : 2 * at,
  })),
  {
    speculation: true,
    isCached: true,
    pieceCells: 40,
    stepTimes: STEP_TIMES[0]!,
    room: 0.5,
    mostThreads: MOST_THREADS,
    mostRows: 40,
    pausesEncoder: true,
    seed: 1,
  },
]

async function requestsOf(
  { turn, media, adapters = [] }: Subject,
  drawn: readonly DrawnRequest[],
  alone: Alone,
): Promise<Request[]> {
  const [begin, end] = turn
  const requests: Request[] = []
  for (const [
    at,
    { beginning, shared, own, seed, branches, organisation, priority, pause, ...one },
  ] of drawn.entries()) {
    const content = untrusted(words(seed, own))
    const prefix: PromptPart[] = [
      trusted(begin),
      untrusted(BEGINNINGS[beginning]!.slice(0, shared * LETTERS_OF_WORD)),
      ...media.slice(one.media, one.media + 1),
      content,
    ]
    const last = requests[at - 1]
    if (one.isTurn && last !== undefined && !drawn[at - 1]!.isTurn) {
      const { text } = await alone.of(last, 0, 0)
      prefix.splice(
        0,
        prefix.length,
        ...last.prefix,
        ...last.branches[0]!.suffix,
        untrusted(text),
        trusted(begin),
        content,
      )
    }
    const isOne = branches.length === 1
    if (isOne) prefix.push(trusted(end))
    requests.push({
      organisation,
      prefix,
      branches: branches.map(({ own, seed, temperature, ...fields }) => ({
        ...fields,
        suffix: isOne ? [] : [untrusted(words(seed, own)), trusted(end)],
        sampling: { ...GREEDY, temperature },
        seed,
      })),
      priority,
      adapter: adapters[one.adapter],
      pause,
    })
  }
  return requests
}

function waysOf({ isCached, mostThreads, mostRows, seed, ...ways }: DrawnWays): Ways {
  const random = seededRandom(seed)
  const upTo = (most: number) => 1 + Math.floor(random() * most)
  const prefixCacheBytes = isCached ? CACHE_BYTES : 0
  return { ...ways, prefixCacheBytes, threads: () => upTo(mostThreads), rows: () => upTo(mostRows) }
}

function count({ stats }: Played): void {
  total.accepted += stats.acceptedTokens
  total.preempted += stats.preemptions
  total.found += stats.prefixHits
  total.fromDisk += stats.diskHits
}

describe.each(SUBJECTS)('$name', (subject) => {
  let written: Partial<EngineSettings>
  let loaded: LoadedModel
  let alone: Alone
  beforeAll(async () => {
    written = await subject.write()
    ;({ loaded } = await load(written))
    alone = new Alone(loaded)
  })
  afterAll(() => loaded?.close())

  test('replies are the same bit for bit as alone', async () => {
    const property = fc.asyncProperty(
      fc.array(drawnRequest, { minLength: 1, maxLength: 7 }),
      drawnWays,
      async (drawn, ways) => {
        const requests = await requestsOf(subject, drawn, alone)
        const played = await play(loaded, requests, waysOf(ways))
        count(played)
        await alone.expect(requests, played)
      },
    )
    await fc.assert(property, { numRuns: subject.isDrawn ? 2 : 1, examples: [[...BUSY]], endOnFailure: true })
  })

  test.runIf(subject.isStored)('they are after a restart, with prefixes on disk', async () => {
    const requests = await requestsOf(subject, BUSY[0].slice(0, 4), alone)
    const files = { directory: join(folder, `prefixes of ${subject.name}`), limitBytes: 2 ** 30, keepsAll: true }
    for (const threads of [1, 3]) {
      const { loaded: other, settings } = await load(written, { threads })
      const prefixDisk = { ...files, model: subject.name }
      const open = () => openDisk({ ...settings, prefixDisk }, { fingerprint: 'fp_0' })
      try {
        const played = await play(other, requests, { ...waysOf(BUSY[1]), threads: () => threads }, open)
        count(played)
        await alone.expect(requests, played)
      } finally {
        await other.close()
      }
    }
  })
})

test('all of that has happened', () => {
  for (const [what, times] of Object.entries(total)) expect(times, what).toBeGreaterThan(0)
})
