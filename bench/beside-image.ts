/** A chat that is being answered while another client sends an image: what the image costs it, with both servers. */
import { type Benchmark, type BenchOptions, print } from './support/benchmark.ts'
import { chat, type Message } from './support/chat.ts'
import { type BenchModel, prepareModel } from './support/models.ts'
import { requirePeer } from './support/peer-build.ts'
import { FreshText } from './support/prompts.ts'
import { type BenchServer, startLookout, startPeer } from './support/server.ts'
import { median, spread } from './support/statistics.ts'
import { table } from './support/table.ts'

const CHAT_WORDS = 20
/** Enough to outlast an image. What comes after the image has its answer is not counted. */
const CHAT_TOKENS = 400
/** Texts of the chat before the image is sent. */
const BEFORE = 8

interface Run {
  /** Longest time between two texts of the chat, while the image waited for its answer; in ms. */
  readonly pauseMs: number
  /** Texts of the chat in that time, per second. */
  readonly speed: number
  /** Until the first text about the image, beside the chat and alone. */
  readonly imageMs: number
  readonly aloneMs: number
}

export const besideImage: Benchmark = {
  summary: "a chat that is being answered while another client's image is read",
  withPeer: true,

  async run(options) {
    const peer = requirePeer()
    for (const name of options.models) {
      const model = await prepareModel(name)
      if (!model.takesImages) continue
      const shared = { slots: 4, threads: model.threads, contextTokens: model.card.engine.contextTokens }
      const rows: string[][] = []
      for (const which of ['Lookout', 'llama-server'] as const) {
        await using server =
          which === 'Lookout' ? await startLookout(model.cardFile, model.id) : await startPeer(peer, model, shared)
        rows.push(row(which, await measure(server, options)))
      }
      print(heading(model, options))
      print(table(COLUMNS, rows))
    }
  },
}

const COLUMNS = [
  'server',
  'longest pause of the chat, ms',
  "the chat's texts per second",
  'first text about the image, ms',
  'alone, ms',
]

const repetitionsOf = ({ quick, repetitions }: BenchOptions) => repetitions ?? (quick ? 1 : 3)

function heading({ name, threads }: BenchModel, options: BenchOptions): string {
  return `### A chat beside an image, ${name}, ${threads} thread${threads === 1 ? '' : 's'} each

A chat of ${CHAT_WORDS} words is being answered when another client sends an image. Pause and speed of the chat are those until the first text about the image. Medians (minimum to maximum) of ${repetitionsOf(options)}.
`
}

function row(which: string, runs: readonly Run[]): string[] {
  const column = (of: (run: Run) => number) => spread(runs.map(of), 0)
  const speeds = runs.map(({ speed }) => speed)
  const columns = [column(({ imageMs }) => imageMs), column(({ aloneMs }) => aloneMs)]
  return [which, column(({ pauseMs }) => pauseMs), median(speeds).toFixed(1), ...columns]
}

async function measure(server: BenchServer, options: BenchOptions): Promise<Run[]> {
  const fresh = new FreshText()
  const runs: Run[] = []
  await chat(server, [await image(fresh)], 1)
  for (let run = 0; run < repetitionsOf(options); run++) {
    const { firstMs } = await chat(server, [await image(fresh)], 1)
    runs.push({ ...(await beside(server, fresh)), aloneMs: firstMs })
  }
  return runs
}

async function beside(server: BenchServer, fresh: FreshText): Promise<Omit<Run, 'aloneMs'>> {
  const message = await image(fresh)
  const running = Promise.withResolvers<void>()
  let times: number[] = []
  const stream = chat(server, [{ role: 'user', content: fresh.words(CHAT_WORDS) }], CHAT_TOKENS, {}, () => {
    times.push(performance.now())
    if (times.length === BEFORE) running.resolve()
  })
  await Promise.race([running.promise, stream])
  const started = performance.now()
  times = []
  const { firstMs } = await chat(server, [message], 1)
  const end = started + firstMs
  const within = [started, ...times.filter((time) => time < end), end]
  await stream
  if (times.at(-1)! < end) throw new Error(`The chat with ${server.name} ended before the image was read.`)
  return {
    pauseMs: Math.max(...within.slice(1).map((time, index) => time - within[index]!)),
    speed: ((within.length - 2) * 1000) / firstMs,
    imageMs: firstMs,
  }
}

async function image(fresh: FreshText): Promise<Message> {
  const question = { type: 'text', text: `Where is the ${fresh.words(1)} circle?` } as const
  return { role: 'user', content: [await fresh.image(), question] }
}
