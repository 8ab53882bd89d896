/**
 * What a GPU gives, in one run of at most six minutes: the engine against llama-batched-bench, and the server against
 * llama-server, with the goals that were set for it. Neither works while the other is measured.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { LocalEngine } from '../src/inference/local/host/local-engine.ts'
import { subjectsOf, talk } from './conversation.ts'
import { chats, SLOTS } from './decisions.ts'
import { BATCHES, batchedBench, countTokens, generate, PREFIX_WORDS, type Speed } from './engine.ts'
import { inChats, inOneCall, PROMPTS } from './multilook.ts'
import { type Benchmark, type BenchOptions, print, UsageError } from './support/benchmark.ts'
import { chat } from './support/chat.ts'
import { decide } from './support/decide.ts'
import { DeviceUse } from './support/device-use.ts'
import { gpus } from './support/gpus.ts'
import { knownPicture } from './support/known-picture.ts'
import { warn } from './support/machine.ts'
import { type BenchModel, prepareModel } from './support/models.ts'
import { type Peer, requirePeer } from './support/peer-build.ts'
import { FreshText, QUESTIONS } from './support/prompts.ts'
import { type BenchServer, startLookout, startPeer } from './support/server.ts'
import { median } from './support/statistics.ts'
import { now, readSteps, type StepTime, stepEnvironment } from './support/step-times.ts'
import { table } from './support/table.ts'
import { CLIENTS, prompts, round } from './throughput.ts'

/** With the time that each may take, in s. What has begun is completed, and everything is measured once. */
const PARTS = {
  engine: 70,
  steps: 15,
  text: 60,
  images: 60,
  first: 15,
  multilook: 25,
  chats: 25,
  decisions: 50,
} as const
type Part = keyof typeof PARTS

const REPETITIONS = 3
const LONG_WORDS = 2000
/** Chats of each client in a round: one would last for the time of a few samples of the device. */
const CHATS = 4
const CHATS_OF_MANY = 2
const MANY_CLIENTS = 16
const DECISIONS = 64
/** First texts about a picture of 1,024 tokens, in a row. */
const FIRSTS = 6
const LARGE_SIDE = 1024
/** The rows of the steps that are taken apart. */
const STEP_ROWS = [1, 8, 16, 32]
const PROMPT_ROWS = 100
/** Share of a goal from which the issue says that it may be explained instead. */
const NEARLY = 0.9

const TEXT_GOALS: Readonly<Record<number, number>> = { 1: 1.2, 2: 1.5, 4: 2, 16: 3.5 }

/** A ratio that is to be at least, or at most, so high. */
interface Goal {
  readonly value: number
  readonly atMost?: boolean
}

/** What one side did, once for each repetition. */
interface Side {
  readonly values: number[]
  /** Percent of the time that the device worked; without repetitions that were too short to tell. */
  readonly device: number[]
}

interface Row {
  readonly part: Part
  readonly name: string
  readonly unit: string
  readonly goal: Goal | null
  readonly own: Side
  readonly other: Side
  /** One for each repetition. */
  readonly ratios: readonly number[]
  readonly verdict: string
}

export const gpu: Benchmark = {
  summary: 'all that a GPU has goals for, against llama-batched-bench and llama-server, in at most six minutes',
  withPeer: true,
  models: ['two-billion'],

  async run(options) {
    const parts = partsOf(options)
    if (gpus() === null && !options.anyway)
      throw new UsageError('This machine has no GPU that Lookout uses. With --anyway, CPUs are compared.')
    if (gpus() === null) print('There is no GPU: these are figures of the CPU against the CPU.\n')
    const peer = requirePeer()
    for (const name of options.models) {
      const prepared = await prepareModel(name)
      const model = { ...prepared, threads: options.peerThreads ?? prepared.threads }
      const folder = await mkdtemp(join(tmpdir(), 'lookout-bench-gpu-'))
      using device = new DeviceUse()
      const bench = new Measurements(model, peer, options, device, join(folder, 'steps'))
      try {
        await bench.run(parts)
      } finally {
        if (options.json !== null) await writeFile(options.json, `${JSON.stringify(bench.report, null, 1)}\n`)
        await rm(folder, { recursive: true, force: true })
      }
    }
  },
}

function partsOf({ only }: BenchOptions): ReadonlySet<Part> {
  const all = Object.keys(PARTS) as Part[]
  const unknown = only?.find((name) => !all.includes(name as Part))
  if (unknown !== undefined) throw new UsageError(`Unknown part "${unknown}". The parts are ${all.join(', ')}.`)
  return new Set(only === null ? all : (only as Part[]))
}

/** One run with one model. It prints each row as soon as it is measured. */
class Measurements {
  readonly #model: BenchModel
  readonly #peer: Peer
  readonly #options: BenchOptions
  readonly #device: DeviceUse
  readonly #stepsFile: string
  readonly #fresh = new FreshText()
  readonly #rows: Row[] = []
  #steps: readonly (readonly string[])[] = []
  #idlePercent: number[] = []
  #partEnds = 0
  #hasHeader = false

  constructor(model: BenchModel, peer: Peer, options: BenchOptions, device: DeviceUse, stepsFile: string) {
    this.#model = model
    this.#peer = peer
    this.#options = options
    this.#device = device
    this.#stepsFile = stepsFile
  }

  get report(): object {
    return {
      model: this.#model.name,
      devices: gpus()?.names ?? null,
      rows: this.#rows,
      steps: this.#steps,
      idlePercentOf16Clients: this.#idlePercent,
    }
  }

  async run(parts: ReadonlySet<Part>): Promise<void> {
    print(`### GPU, ${this.#model.name}\n`)
    const has = (...names: Part[]) => names.some((name) => parts.has(name))
    if (has('engine', 'steps')) await this.#engine(parts)
    if (!has('text', 'images', 'first', 'multilook', 'chats', 'decisions')) return
    await using lookout = await startLookout(this.#model.cardFile, this.#model.id, {
      environment: stepEnvironment(this.#stepsFile),
    })
    // A chat has a slot's share of the context: with few slots, more than one of the chats' fifth turn.
    if (has('text', 'images', 'first', 'multilook')) {
      await using llamaServer = await this.#startPeer(Math.max(...CLIENTS, PROMPTS), false)
      const servers = [lookout, llamaServer] as const
      if (has('text')) await this.#part('text', () => this.#throughput('text', ...servers))
      if (this.#model.takesImages) {
        if (has('images')) await this.#part('images', () => this.#throughput('images', ...servers))
        if (has('first')) await this.#part('first', () => this.#firstTexts(...servers))
        if (has('multilook')) await this.#part('multilook', () => this.#multilook(...servers))
      }
    }
    for (const slots of [...SLOTS].reverse()) {
      const isFirst = slots === Math.max(...SLOTS)
      if (!has('decisions') && !(isFirst && has('chats'))) continue
      await using llamaServer = await this.#startPeer(slots, true)
      if (isFirst && has('chats')) await this.#part('chats', () => this.#chats(lookout, llamaServer))
      if (has('decisions') && this.#model.takesImages)
        await this.#part('decisions', () => this.#decisions(lookout, llamaServer, slots))
    }
  }

  #startPeer(slots: number, unified: boolean): Promise<BenchServer> {
    const { threads, card } = this.#model
    return startPeer(this.#peer, this.#model, { slots, unified, threads, contextTokens: card.engine.contextTokens })
  }

  async #part(name: Part, measure: () => Promise<void>): Promise<void> {
    const started = performance.now()
    this.#partEnds = started + PARTS[name] * 1000
    await measure()
    warn(`${name}: ${((performance.now() - started) / 1000).toFixed(0)} s`)
  }

  /** Times that something is measured: at least once, and as long as the part has time. */
  *#repetitions(most = this.#options.repetitions ?? (this.#options.quick ? 1 : REPETITIONS)): Generator<number> {
    const started = performance.now()
    for (let run = 0; run < most; run++) {
      const mean = run === 0 ? 0 : (performance.now() - started) / run
      if (run > 0 && performance.now() + mean > this.#partEnds) return
      yield run
    }
  }

  async #use<Result>(side: Side, work: () => Promise<Result>): Promise<Result> {
    const started = performance.now()
    const result = await work()
    const share = this.#device.between(started, performance.now())
    if (share !== null) side.device.push(share)
    return result
  }

  /** Measures both servers in turn. The peer is stopped meanwhile: it must not disturb what it is compared with. */
  async #inTurn(
    run: number,
    llamaServer: BenchServer,
    own: () => Promise<void>,
    other: () => Promise<void>,
  ): Promise<void> {
    const alone = async () => {
      process.kill(llamaServer.pid, 'SIGSTOP')
      try {
        await own()
      } finally {
        process.kill(llamaServer.pid, 'SIGCONT')
      }
    }
    for (const measure of run % 2 === 0 ? [alone, other] : [other, alone]) await measure()
  }

  #add(
    row: Pick<Row, 'part' | 'name' | 'unit' | 'goal' | 'own' | 'other'> & {
      /** Ratio of the values of Lookout and the peer. */
      readonly ratio: (own: number, other: number) => number
    },
  ): void {
    const { ratio, ...rest } = row
    const { own, other, goal } = rest
    const ratios = own.values.map((value, run) => ratio(value, other.values[run]!))
    const added = { ...rest, ratios, verdict: goal === null ? '' : verdict(median(ratios), goal) }
    this.#rows.push(added)
    const lines = table(HEADINGS, [cells(added)]).split('\n')
    if (!this.#hasHeader) print(lines.slice(0, 2).join('\n'))
    this.#hasHeader = true
    print(lines[2]!)
  }

  async #engine(parts: ReadonlySet<Part>): Promise<void> {
    // Its process takes the variables of this one.
    const before = { ...process.env }
    Object.assign(process.env, stepEnvironment(this.#stepsFile))
    const engine = await LocalEngine.start(this.#model.card)
    process.env = before
    try {
      // Twice each, as the peer is: a device loads or records programs for each size.
      for (const batch of [...BATCHES, ...BATCHES]) await generate(engine, this.#fresh.words(PREFIX_WORDS), batch)
      await generate(engine, this.#fresh.words(LONG_WORDS), 1)
      if (parts.has('engine')) await this.#part('engine', () => this.#speeds(engine))
      if (parts.has('steps')) await this.#part('steps', () => this.#stepParts(engine))
    } finally {
      await engine.close()
    }
  }

  async #speeds(engine: LocalEngine): Promise<void> {
    const fresh = this.#fresh
    const own: Speed[][] = []
    const others: Speed[][] = []
    const sides = { own: sideOf(), other: sideOf() }
    const counts = await Promise.all([PREFIX_WORDS, LONG_WORDS].map((words) => countTokens(engine, fresh.words(words))))
    for (const run of this.#repetitions()) {
      const measureOwn = () =>
        this.#use(sides.own, async () => {
          const speeds: Speed[] = []
          for (const batch of BATCHES) speeds.push(await generate(engine, fresh.words(PREFIX_WORDS), batch))
          own.push([...speeds, await generate(engine, fresh.words(LONG_WORDS), 1)])
        })
      const measurePeer = async () => {
        // The first of each size is its warm-up, too.
        const twice = BATCHES.flatMap((batch) => [batch, batch])
        const short = await batchedBench(this.#peer, this.#model, counts[0]!, { batches: twice })
        const long = await batchedBench(this.#peer, this.#model, counts[1]!, { batches: [1] })
        others.push([...short.filter((_, index) => index % 2 === 1), ...long])
      }
      for (const measure of run % 2 === 0 ? [measureOwn, measurePeer] : [measurePeer, measureOwn]) await measure()
    }
    const add = (name: string, index: number, field: keyof Speed, goal: number) => {
      const of = (runs: readonly Speed[][], { device }: Side) => ({
        values: runs.map((speeds) => speeds[index]![field]),
        device,
      })
      const both = { own: of(own, sides.own), other: of(others, sides.other) }
      this.#add({ part: 'engine', name, unit: 'tokens/s', goal: { value: goal }, ...both, ratio: faster })
    }
    for (const [index, batch] of BATCHES.entries()) add(`engine, decode, ${batch} sequences`, index, 'decode', 0.98)
    add(`engine, prefill of ${counts[0]} tokens`, 0, 'prefill', 0.97)
    add(`the same for ${BATCHES.at(-1)} sequences`, BATCHES.length - 1, 'prefill', 0.97)
    add(`engine, prefill of ${counts[1]} tokens`, BATCHES.length, 'prefill', 0.97)
  }

  /** Where a step goes, from the times that the engine's process notes. */
  async #stepParts(engine: LocalEngine): Promise<void> {
    const calls: { readonly batch: number; readonly asked: number; readonly ended: number }[] = []
    for (const _ of this.#repetitions()) {
      for (const batch of STEP_ROWS) {
        const [text, asked] = [this.#fresh.words(PREFIX_WORDS), now()]
        await generate(engine, text, batch)
        calls.push({ batch, asked, ended: now() })
      }
    }
    await this.#flushed()
    const steps = readSteps(this.#stepsFile)
    const rows = STEP_ROWS.map((batch) => {
      const pairs = calls.flatMap(({ batch: size, asked, ended }) => {
        const of = steps.filter((step) => size === batch && step.started >= asked && step.started <= ended)
        return of.flatMap((step, index) =>
          step.rows > PROMPT_ROWS || index + 1 >= of.length ? [] : [[step, of[index + 1]!] as const],
        )
      })
      if (pairs.length === 0) return [String(batch), '-', '-', '-', '-']
      const native = median(pairs.map(([step]) => step.ended - step.started))
      const choosing = median(pairs.map(([step]) => step.choosingMs))
      const between = median(pairs.map(([step, next]) => next.started - step.ended))
      // The part of the time between two steps that choosing does not explain; below zero where the next began before that.
      return [
        String(median(pairs.map(([step]) => step.rows))),
        ...[native, choosing, between - choosing].map((ms) => ms.toFixed(2)),
        '-',
      ]
    })
    const prompts = calls.flatMap(({ asked }) => steps.find((step) => step.started >= asked) ?? [])
    const ms = (values: readonly number[]) => (values.length === 0 ? '-' : median(values).toFixed(2))
    rows.push([
      `prompt of ${PREFIX_WORDS} words`,
      ms(prompts.filter((step) => step.rows > PROMPT_ROWS).map((step) => step.ended - step.started)),
      '-',
      '-',
      ms(prompts.map((step, index) => step.started - calls[index]!.asked)),
    ])
    this.#steps = rows
    print(`\nWhere a step goes, medians in ms:\n\n${table(STEP_HEADINGS, rows)}`)
    this.#hasHeader = false
  }

  async #flushed(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, 300))
  }

  async #throughput(part: 'text' | 'images', lookout: BenchServer, llamaServer: BenchServer): Promise<void> {
    const kind = part === 'text' ? 'text' : 'image'
    const messages = (clients: number) =>
      prompts(this.#fresh, kind, clients * (clients >= MANY_CLIENTS ? CHATS_OF_MANY : CHATS))
    for (const server of [lookout, llamaServer]) await round(server, await messages(2), 2)
    for (const clients of CLIENTS) {
      const sides = { own: sideOf(), other: sideOf() }
      const firsts = { own: sideOf(), other: sideOf() }
      const measure = async (server: BenchServer, which: 'own' | 'other') => {
        const asked = await messages(clients)
        const started = now()
        const { tokensPerSecond, firstMs } = await this.#use(sides[which], () => round(server, asked, clients))
        sides[which].values.push(tokensPerSecond)
        firsts[which].values.push(firstMs)
        if (part === 'text' && which === 'own' && clients === MANY_CLIENTS) await this.#noteIdle(started, now())
      }
      for (const run of this.#repetitions()) {
        await this.#inTurn(
          run,
          llamaServer,
          () => measure(lookout, 'own'),
          () => measure(llamaServer, 'other'),
        )
      }
      const value = part === 'text' ? TEXT_GOALS[clients]! : 1.3
      const name = `${part}, ${clients} client${clients === 1 ? '' : 's'}`
      this.#add({ part, name, unit: 'tokens/s', goal: { value }, ...sides, ratio: faster })
      this.#add({ part, name: `first text, ${name}`, unit: 'ms', goal: null, ...firsts, ratio: share })
    }
    if (this.#idlePercent.length > 0 && part === 'text') {
      print(
        `\nBetween the engine's steps under ${MANY_CLIENTS} clients: ${median(this.#idlePercent).toFixed(1)} % of the time (goal: at most 3).\n`,
      )
      this.#hasHeader = false
    }
  }

  /** How much of the time from the first step to the last no step was under way: before and after, there is nothing to compute. */
  async #noteIdle(started: number, ended: number): Promise<void> {
    await this.#flushed()
    const steps = readSteps(this.#stepsFile).filter((step) => step.ended >= started && step.started <= ended)
    if (steps.length === 0) return
    const [from, to] = [Math.min(...steps.map((step) => step.started)), Math.max(...steps.map((step) => step.ended))]
    this.#idlePercent.push(100 * (1 - busyMs(steps, from, to) / (to - from)))
  }

  async #firstTexts(lookout: BenchServer, llamaServer: BenchServer): Promise<void> {
    const sides = { own: sideOf(), other: sideOf() }
    const ask = async (server: BenchServer, side: Side) => {
      const image = await this.#fresh.image({ width: LARGE_SIDE, height: LARGE_SIDE })
      const content = [image, { type: 'text', text: QUESTIONS[0]! } as const]
      const { firstMs } = await this.#use(side, () => chat(server, [{ role: 'user', content }], 1))
      side.values.push(firstMs)
    }
    for (const server of [lookout, llamaServer]) await ask(server, sideOf())
    for (const run of this.#repetitions(this.#options.quick ? 2 : FIRSTS)) {
      await this.#inTurn(
        run,
        llamaServer,
        () => ask(lookout, sides.own),
        () => ask(llamaServer, sides.other),
      )
    }
    const goal = { value: 0.5, atMost: true }
    const name = 'first text about a picture of 1,024 pixels square, alone'
    this.#add({ part: 'first', name, unit: 'ms', goal, ...sides, ratio: share })
  }

  async #multilook(lookout: BenchServer, llamaServer: BenchServer): Promise<void> {
    const sides = { own: sideOf(), other: sideOf() }
    const warmUp = { role: 'user', content: this.#fresh.words(8) } as const
    await inOneCall(lookout, warmUp)
    await inChats(llamaServer, warmUp)
    for (const run of this.#repetitions()) {
      const image = await this.#fresh.image({ width: LARGE_SIDE, height: LARGE_SIDE })
      const message = { role: 'user', content: [image] } as const
      const measure = async (side: Side, ask: typeof inOneCall, server: BenchServer) => {
        side.values.push((await this.#use(side, () => ask(server, message))).totalMs)
      }
      await this.#inTurn(
        run,
        llamaServer,
        () => measure(sides.own, inOneCall, lookout),
        () => measure(sides.other, inChats, llamaServer),
      )
    }
    const name = `multilook of ${PROMPTS} over one picture`
    this.#add({ part: 'multilook', name, unit: 'ms', goal: { value: 10 }, ...sides, ratio: timesFaster })
  }

  /** Against the first text of the same chat; the peer's row is for comparison. */
  async #chats(lookout: BenchServer, llamaServer: BenchServer): Promise<void> {
    for (const server of [lookout, llamaServer]) await talk(server, (content) => ({ role: 'user', content }))
    for (const subject of subjectsOf(this.#model)) {
      const sidesOf = () => ({ first: sideOf(), fifth: sideOf(), again: sideOf() })
      const all = new Map([lookout, llamaServer].map((server) => [server, sidesOf()]))
      for (const run of this.#repetitions()) {
        const ask = await subject.create(this.#fresh)
        const measure = async (server: BenchServer) => {
          const sides = all.get(server)!
          const { turns, again } = await this.#use(sides.fifth, () => talk(server, ask))
          sides.first.values.push(turns[0]!.firstMs)
          sides.fifth.values.push(turns.at(-1)!.firstMs)
          sides.again.values.push(again.firstMs)
        }
        await this.#inTurn(
          run,
          llamaServer,
          () => measure(lookout),
          () => measure(llamaServer),
        )
      }
      for (const [server, { first, fifth, again }] of all) {
        const goal = server === lookout ? { value: 0.15, atMost: true } : null
        for (const [what, own] of [
          ['turn 5', fifth],
          ['second question', again],
        ] as const) {
          const name = `${what} about ${subject.name}${server === lookout ? '' : ', llama-server alone'}; beside it, turn 1`
          this.#add({ part: 'chats', name, unit: 'ms', goal, own, other: first, ratio: share })
        }
      }
    }
  }

  async #decisions(lookout: BenchServer, llamaServer: BenchServer, slots: number): Promise<void> {
    const warmUp = await knownPicture(this.#fresh, 16)
    await decide(lookout, warmUp)
    await chats(llamaServer, warmUp)
    const kinds = ['seen before', 'new'] as const
    const sides = kinds.map(() => ({ own: sideOf(), other: sideOf() }))
    for (const run of this.#repetitions()) {
      for (const [index, kind] of kinds.entries()) {
        const picture = await knownPicture(this.#fresh, DECISIONS)
        // A first question puts the picture into the caches of both; questions of the measurement are others.
        const first = { ...picture, questions: warmUp.questions.slice(0, slots) }
        const measure = async (side: Side, ask: typeof decide, server: BenchServer) => {
          if (kind === 'seen before') await ask(server, first)
          side.values.push((await this.#use(side, () => ask(server, picture))).totalMs)
        }
        await this.#inTurn(
          run,
          llamaServer,
          () => measure(sides[index]!.own, decide, lookout),
          () => measure(sides[index]!.other, chats, llamaServer),
        )
      }
    }
    for (const [index, kind] of kinds.entries()) {
      const name = `${DECISIONS} decisions over a picture ${kind}, llama-server with ${slots} slot${slots === 1 ? '' : 's'}`
      this.#add({ part: 'decisions', name, unit: 'ms', goal: { value: 10 }, ...sides[index]!, ratio: timesFaster })
    }
  }
}

const sideOf = (): Side => ({ values: [], device: [] })
const faster = (own: number, other: number) => own / other
const timesFaster = (own: number, other: number) => other / own
const share = faster

function verdict(ratio: number, { value, atMost = false }: Goal): string {
  const reached = atMost ? value / ratio : ratio / value
  return reached >= 1 ? 'met' : reached >= NEARLY ? '.9' : 'short'
}

/** Time between two times that steps cover, in ms. With the next step begun before the last one ends, they overlap. */
function busyMs(steps: readonly StepTime[], started: number, ended: number): number {
  let sum = 0
  let covered = started
  for (const step of steps.toSorted((a, b) => a.started - b.started)) {
    const from = Math.max(step.started, covered)
    const to = Math.min(step.ended, ended)
    if (to <= from) continue
    sum += to - from
    covered = to
  }
  return sum
}

const HEADINGS = ['', 'unit', 'Lookout', 'peer', 'ratio', 'worst to best', 'goal', '', 'device worked, %', "peer's, %"]
const STEP_HEADINGS = ['rows', 'native call', 'choosing', 'rest', 'from the request to the step']

function cells({ name, unit, goal, own, other, ratios, verdict }: Row): string[] {
  const worst = goal?.atMost ? Math.max(...ratios) : Math.min(...ratios)
  const best = goal?.atMost ? Math.min(...ratios) : Math.max(...ratios)
  const percent = ({ device }: Side) => (device.length === 0 ? '-' : median(device).toFixed(0))
  return [
    name,
    unit,
    median(own.values).toFixed(0),
    median(other.values).toFixed(0),
    median(ratios).toFixed(2),
    `${worst.toFixed(2)} to ${best.toFixed(2)}`,
    goal === null ? '' : `${goal.atMost ? '<=' : '>='} ${goal.value}`,
    verdict,
    percent(own),
    percent(other),
  ]
}
