/** Watches: what they cost the chats beside them, how fast they look and tell, and whether they tell what happens. */
import { setTimeout as delay } from 'node:timers/promises'
import sharp from 'sharp'
import { COLOURS, SHAPES, type Shape } from '../test/support/drawn-shapes.ts'
import { WebhookReceiver } from '../test/support/webhook-receiver.ts'
import { Random } from './simulate/random.ts'
import { type Benchmark, type BenchOptions, print } from './support/benchmark.ts'
import { chat, type Message } from './support/chat.ts'
import { shippedModel } from './support/models.ts'
import { processorTicks } from './support/process-tree.ts'
import { FreshText } from './support/prompts.ts'
import { type BenchServer, startLookout } from './support/server.ts'
import { median, percentile, spread } from './support/statistics.ts'
import { table } from './support/table.ts'
import { Camera, type Counts } from './support/watch-client.ts'
import { predicates, questionsOf, type Thing } from './support/watch-questions.ts'

const SIZE = { width: 480, height: 360 }
const WATCHES = 8
const QUESTIONS = 4
const CHAT_TOKENS = 16
const TEXT_WORDS = 200
/** Most chats come while a look is made, at any moment of it. */
const BETWEEN_CHATS_MS = { least: 200, more: 400 }
/** Maximum for both kinds, with the pauses. */
const MOST_SECONDS_PER_CHAT = 4
const TICKS_PER_SECOND = 100
/** The rate of the watch that the server must not limit. */
const FASTEST = 10
const GROUNDS = ['#f4f1ea', '#dfe8ee', '#e6efe0', '#fff7d6']
/** The rule of the synthetic day, and its rate. */
const DAY = { above: 0.7, below: 0.4, for_seconds: 1, clear_seconds: 1, fps: 2, watches: 4 }
/** For an event to come. */
const WAIT_MS = 5
const MOST_WAITS = 2_000
/** Seconds for which something is there, or not. */
const STAYS = { least: 3, more: 6 }

type Kind = 'text' | 'image'

export const watch: Benchmark = {
  summary:
    'chats beside watches, looks for each core, the time until an event is stored, and events of a synthetic day',
  withPeer: false,

  async run(options) {
    const model = await shippedModel()
    await using server = await startLookout(model.cardFile, model.id, {
      environment: { LOOKOUT_WATCHES: '16', LOOKOUT_WEBHOOK_HOSTS: '127.0.0.1' },
    })
    const threads = `${model.threads} thread${model.threads === 1 ? '' : 's'}`
    print(`### Watches, shipped model, ${threads}\n`)
    await printChats(server, options)
    await printLooks(server, options)
    await printDelay(server, options)
    await printDay(server, options)
  },
}

async function printChats(server: BenchServer, options: BenchOptions): Promise<void> {
  const chats = options.repetitions ?? (options.quick ? 8 : 40)
  const fresh = new FreshText()
  const random = new Random(1)
  const ask = async (kind: Kind) => {
    await delay(BETWEEN_CHATS_MS.least + BETWEEN_CHATS_MS.more * random.next())
    return (await chat(server, [await messageOf(kind, fresh)], CHAT_TOKENS)).firstMs
  }
  const askAll = async () => {
    const found: Record<Kind, number[]> = { text: [], image: [] }
    for (let n = 0; n < chats; n++) for (const kind of ['text', 'image'] as const) found[kind].push(await ask(kind))
    return found
  }
  await askAll()
  const before = await askAll()
  const watches = await Promise.all(
    Array.from({ length: WATCHES }, () =>
      Camera.open(server, { questions: predicates(QUESTIONS), fps: 1, motion: null }),
    ),
  )
  const frames = await movingFrames(WATCHES * chats * MOST_SECONDS_PER_CHAT, 7)
  const stopping = new AbortController()
  const pushing = watches.map((camera, index) =>
    camera.push(
      frames.filter((_, n) => n % WATCHES === index),
      index / WATCHES,
      stopping.signal,
    ),
  )
  await delay(2_000)
  const beside = await askAll()
  stopping.abort()
  await Promise.all(pushing)
  const counts = await Promise.all(watches.map((camera) => camera.counts()))
  for (const camera of watches) await camera.close()
  const after = await askAll()
  print(`Time to the first text of a chat (${TEXT_WORDS} words, or a new image and a question), alone (before and after) and beside ${WATCHES} watches that look once a second with ${QUESTIONS} questions each, at frames that all differ. Medians (minimum to maximum) of ${chats}.
`)
  const rows = (['text', 'image'] as const).map((kind) => {
    const alone = [...before[kind], ...after[kind]]
    const ratio = (of: (values: readonly number[]) => number) => (of(beside[kind]) / of(alone)).toFixed(2)
    const late = (values: readonly number[]) => percentile(values, 0.95)
    return [kind, spread(alone, 0), spread(beside[kind], 0), ratio(median), ratio(late)]
  })
  print(table(['chat', 'alone, ms', 'beside watches, ms', 'ratio', 'ratio of 95th percentiles'], rows))
  const sum = (of: (one: Counts) => number) => counts.reduce((total, one) => total + of(one), 0)
  const dropped = `${sum(({ dropped }) => dropped.late)} late, ${sum(({ dropped }) => dropped.busy)} busy`
  print(
    `Meanwhile ${sum(({ looks }) => looks)} of ${sum(({ frames }) => frames)} frames were looked at (dropped: ${dropped}).\n`,
  )
}

async function messageOf(kind: Kind, fresh: FreshText): Promise<Message> {
  const question = { type: 'text', text: `Where is the ${fresh.words(1)} circle?` } as const
  return { role: 'user', content: kind === 'text' ? fresh.words(TEXT_WORDS) : [await fresh.image(), question] }
}

async function printLooks(server: BenchServer, options: BenchOptions): Promise<void> {
  const looks = options.quick ? 10 : 40
  const rows: string[][] = []
  for (const questions of [1, 4, 16, 64]) {
    const camera = await Camera.open(server, { questions: predicates(questions), fps: FASTEST, motion: null })
    const [first, ...frames] = await movingFrames(1 + looks, 11 + questions)
    await camera.look(first!)
    const before = await processorTicks(server.pid)
    const times: number[] = []
    for (const frame of frames) times.push(await camera.look(frame))
    const seconds = ((await processorTicks(server.pid)) - before) / TICKS_PER_SECOND
    await camera.close()
    rows.push([
      `${questions}`,
      (looks / seconds).toFixed(1),
      ((looks * questions) / seconds).toFixed(0),
      spread(times, 0),
    ])
  }
  print(`Looks of one watch, one after the other, at ${looks} new frames of ${SIZE.width} x ${SIZE.height}: JPEG to stored answer, with all processes of the server.
`)
  print(table(['questions', 'looks per second and core', 'answers per second and core', 'a look, ms'], rows))
}

async function printDelay(server: BenchServer, options: BenchOptions): Promise<void> {
  const flips = options.quick ? 10 : 60
  const things: readonly Thing[] = [{ kind: 'circle', colour: 'red' }]
  const atOnce = { above: 0.5, below: 0.4, for_seconds: 0, clear_seconds: 0 }
  const hook = await WebhookReceiver.start()
  const camera = await Camera.open(server, {
    ...{ questions: questionsOf(things, atOnce), fps: FASTEST / 5, motion: null },
    webhook: { url: hook.url, types: ['watch.event.started', 'watch.event.ended'] },
  })
  /** When each event came, by its number. */
  const [streamed, sent] = [new Map<number, number>(), new Map<number, number>()]
  hook.answer = ({ event }) => {
    sent.set(event.data.seq, performance.now())
    return { status: 204 }
  }
  const leaving = new AbortController()
  const streaming = camera.follow(({ data }) => streamed.set(data.seq, performance.now()), leaving.signal)
  const times: number[] = []
  const after: Record<'stream' | 'webhook', number[]> = { stream: [], webhook: [] }
  for (let flip = 0; flip < flips; flip++) {
    const frame = await draw(flip % 2 === 1 ? placed(things, flip) : [], GROUNDS[0]!)
    await delay(500)
    const { ms, storedAt, told } = await camera.lookFor(frame)
    if (told.length === 0) continue
    times.push(ms)
    for (const seq of told) {
      after.stream.push(Math.max(0, (await timeOf(streamed, seq)) - storedAt))
      after.webhook.push(Math.max(0, (await timeOf(sent, seq)) - storedAt))
    }
  }
  leaving.abort()
  await streaming
  await camera.close()
  hook.close()
  const spoken = (values: readonly number[]) =>
    `median ${median(values).toFixed(0)} ms, 95th percentile ${percentile(values, 0.95).toFixed(0)} ms`
  print(`From the start of sending a frame until its event is stored, without \`for_seconds\`: ${times.length} events, ${spoken(times)}. From then until it is on a stream: ${spoken(after.stream)}; at its webhook: ${spoken(after.webhook)}.
`)
}

/** When an event came, which may be soon. */
async function timeOf(times: ReadonlyMap<number, number>, seq: number): Promise<number> {
  for (let waits = 0; !times.has(seq); waits++) {
    if (waits > MOST_WAITS) throw new Error(`Event ${seq} did not come.`)
    await delay(WAIT_MS)
  }
  return times.get(seq)!
}

/** Things come and go in known seconds. */
async function printDay(server: BenchServer, options: BenchOptions): Promise<void> {
  const seconds = options.quick ? 20 : 120
  const scores = await Promise.all(
    Array.from({ length: DAY.watches }, (_, index) => playDay(server, seconds, 100 + index)),
  )
  const sum = (of: (score: Score) => number) => scores.reduce((total, one) => total + of(one), 0)
  const [stays, events, right, doubled] = [
    sum(({ stays }) => stays),
    sum(({ events }) => events),
    sum(({ right }) => right),
    sum(({ doubled }) => doubled),
  ]
  const { watches, fps, for_seconds, clear_seconds } = DAY
  print(`A day of ${seconds} s on ${watches} watches at ${fps} fps, each with 4 things that come and go for ${STAYS.least} to ${STAYS.least + STAYS.more} s; an event begins after ${for_seconds} s and ends after ${clear_seconds} s.
`)
  const rows = [[`${stays}`, `${events}`, (right / events).toFixed(3), (right / stays).toFixed(3), `${doubled}`]]
  print(table(['stays', 'events', 'precision', 'recall', 'told twice'], rows))
}

interface Score {
  readonly stays: number
  readonly events: number
  readonly right: number
  readonly doubled: number
}

interface Stay {
  readonly thing: number
  readonly from: number
  readonly to: number
}

async function playDay(server: BenchServer, seconds: number, seed: number): Promise<Score> {
  const random = new Random(seed)
  const things = drawnThings(4, random)
  const stays = things.flatMap((_, thing) => staysOf(thing, seconds, random))
  const rule = { above: DAY.above, below: DAY.below, for_seconds: DAY.for_seconds, clear_seconds: DAY.clear_seconds }
  const camera = await Camera.open(server, { questions: questionsOf(things, rule), fps: DAY.fps })
  const ground = GROUNDS[seed % GROUNDS.length]!
  const started = performance.now()
  for (let frame = 0; frame < seconds * DAY.fps; frame++) {
    const at = frame / DAY.fps
    const present = things.flatMap((thing, index) => {
      const isThere = stays.some((stay) => stay.thing === index && stay.from <= at && at < stay.to)
      return isThere ? [shapeOf(thing, index, things.length, frame)] : []
    })
    const picture = await draw(present, ground)
    await delay(Math.max(0, started + at * 1000 - performance.now()))
    await camera.send(picture)
  }
  const told = (await camera.events()).filter(({ type }) => type === 'watch.event.started')
  await camera.close()
  const startedAt = Date.now() - (performance.now() - started)
  const hits = new Map<Stay, number>()
  for (const { data } of told) {
    const at = (Date.parse(data.started_at) - startedAt) / 1000
    // The first frame that shows it may have been dropped.
    const stay = stays.find(
      ({ thing, from, to }) => `q${thing}` === data.question && at >= from - 0.5 / DAY.fps && at < to,
    )
    if (stay !== undefined) hits.set(stay, (hits.get(stay) ?? 0) + 1)
  }
  const doubled = [...hits.values()].filter((times) => times > 1).length
  return { stays: stays.length, events: told.length, right: hits.size, doubled }
}

/** Each is long enough for an event to begin and end, and over before the day is. */
function staysOf(thing: number, seconds: number, random: Random): Stay[] {
  const stays: Stay[] = []
  const length = () => STAYS.least + STAYS.more * random.next()
  for (let at = length(); ; ) {
    const to = at + length()
    if (to > seconds - STAYS.least) return stays
    stays.push({ thing, from: at, to })
    at = to + length()
  }
}

function drawnThings(count: number, random: Random): Thing[] {
  const kinds = Object.keys(SHAPES) as Shape['kind'][]
  const colours = Object.keys(COLOURS) as Shape['colour'][]
  return Array.from({ length: count }, () => ({
    kind: kinds.splice(random.below(kinds.length), 1)[0]!,
    colour: colours.splice(random.below(colours.length), 1)[0]!,
  }))
}

/** Each thing moves up and down in a lane of its own. */
function shapeOf({ kind, colour }: Thing, index: number, lanes: number, frame: number): Shape {
  const lane = SIZE.width / lanes
  const y = SIZE.height / 2 + (SIZE.height / 4) * Math.sin((frame + 5 * index) / 4)
  return { kind, colour, x: (index + 0.5) * lane, y, scale: 0.9 }
}

function placed(things: readonly Thing[], frame: number): Shape[] {
  return things.map((thing, index) => shapeOf(thing, index, things.length, frame))
}

/** Frames that all differ, so that no cache helps. */
async function movingFrames(count: number, seed: number): Promise<Buffer[]> {
  const random = new Random(seed)
  const things = drawnThings(4, random)
  const frames: Buffer[] = []
  for (let frame = 0; frame < count; frame++) {
    const hue = Math.floor(360 * random.next())
    const ground = `hsl(${hue} ${20 + 20 * random.next()}% 90%)`
    frames.push(await draw(placed(things, frame), ground))
  }
  return frames
}

function draw(shapes: readonly Shape[], ground: string): Promise<Buffer> {
  const { width, height } = SIZE
  const drawn = shapes.map(
    ({ kind, colour, x, y, scale }) =>
      `<g transform="translate(${x} ${y}) scale(${scale})" fill="${COLOURS[colour]}">${SHAPES[kind]}</g>`,
  )
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}"><rect width="100%" height="100%" fill="${ground}"/>${drawn.join('')}</svg>`
  return sharp(Buffer.from(svg)).jpeg({ quality: 80 }).toBuffer()
}
