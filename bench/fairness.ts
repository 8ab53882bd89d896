/**
 * How a long prompt and short chats affect each other: the time to the first text of short chats during the prefill of
 * a long prompt, and that of the long prompt, each against the same request alone.
 */
import { type Benchmark, type BenchOptions, print } from './support/benchmark.ts'
import { chat, type Message } from './support/chat.ts'
import { type BenchModel, prepareModel } from './support/models.ts'
import { FreshText } from './support/prompts.ts'
import { type BenchServer, startLookout } from './support/server.ts'
import { median, percentile } from './support/statistics.ts'
import { table } from './support/table.ts'

const LONG_WORDS = 20_000
const SHORT_WORDS = 20
const OUTPUT_TOKENS = 16
const CHATS_ALONE = 20

type Kind = 'text' | 'image'

interface Run {
  /** Times to the first text, in ms. */
  readonly alone: readonly number[]
  readonly concurrent: readonly number[]
  readonly longAlone: number
  readonly longConcurrent: number
  readonly longTokens: number
}

export const fairness: Benchmark = {
  summary: 'short chats during the prefill of a long prompt: time to the first text of both, against each alone',
  withPeer: false,

  async run(options) {
    for (const name of options.models) {
      const model = await prepareModel(name)
      await using server = await startLookout(model.cardFile, model.id)
      const fresh = new FreshText()
      for (let i = 0; i < 3; i++) await chat(server, [await short(fresh, model.takesImages ? 'image' : 'text')], 4)
      const kinds: readonly Kind[] = model.takesImages ? ['text', 'image'] : ['text']
      const rows: string[][] = []
      let longTokens = 0
      for (const kind of kinds) {
        const runs: Run[] = []
        for (let n = 0; n < repetitionsOf(options); n++) runs.push(await measure(server, fresh, kind))
        longTokens = runs[0]!.longTokens
        rows.push(row(kind, runs))
      }
      print(heading(model, longTokens, options))
      print(table(COLUMNS, rows))
    }
  },
}

const repetitionsOf = ({ quick, repetitions }: BenchOptions) => repetitions ?? (quick ? 1 : 3)

const COLUMNS = [
  'short chats',
  'alone, ms',
  'concurrent, ms',
  'ratio',
  'ratio, 95th percentile',
  'ratio, worst',
  'worst alone',
  'long prompt alone, ms',
  'concurrent, ms',
  'ratio',
]

function heading({ name, threads }: BenchModel, longTokens: number, options: BenchOptions): string {
  const repetitions = repetitionsOf(options)
  return `### A long prompt and short chats, ${name}, ${threads} thread${threads === 1 ? '' : 's'}

Time to the first text. The long prompt has ${longTokens} tokens; short chats have ${SHORT_WORDS} words (or a new image and a question) and ${OUTPUT_TOKENS} output tokens. One client sends them one after another while the long prompt runs. Ratios are to the median alone; ${repetitions} repetition${repetitions === 1 ? '' : 's'}, with both measured alone first.
`
}

async function measure(server: BenchServer, fresh: FreshText, kind: Kind): Promise<Run> {
  const ask = async () => (await chat(server, [await short(fresh, kind)], OUTPUT_TOKENS)).firstMs
  const askLong = () => chat(server, [{ role: 'user', content: fresh.words(LONG_WORDS) }], 1)
  const alone: number[] = []
  for (let i = 0; i < CHATS_ALONE; i++) alone.push(await ask())
  const longAlone = await askLong()
  const concurrent: number[] = []
  let isOver = false
  const long = askLong().finally(() => {
    isOver = true
  })
  while (!isOver) {
    const firstMs = await ask()
    // A chat during which the long prompt ended does not count.
    if (!isOver) concurrent.push(firstMs)
  }
  const { firstMs: longConcurrent, promptTokens: longTokens } = await long
  return { alone, concurrent, longAlone: longAlone.firstMs, longConcurrent, longTokens }
}

async function short(fresh: FreshText, kind: Kind): Promise<Message> {
  const question = { type: 'text', text: `Where is the ${fresh.words(1)} circle?` } as const
  return { role: 'user', content: kind === 'text' ? fresh.words(SHORT_WORDS) : [await fresh.image(), question] }
}

function row(kind: Kind, runs: readonly Run[]): string[] {
  const alone = runs.flatMap((run) => run.alone)
  const ratios = runs.flatMap((run) => run.concurrent.map((ms) => ms / median(run.alone)))
  const longAlone = median(runs.map((run) => run.longAlone))
  return [
    kind,
    median(alone).toFixed(0),
    median(runs.flatMap(({ concurrent }) => concurrent)).toFixed(0),
    median(ratios).toFixed(2),
    percentile(ratios, 0.95).toFixed(2),
    Math.max(...ratios).toFixed(2),
    (Math.max(...alone) / median(alone)).toFixed(2),
    longAlone.toFixed(0),
    median(runs.map(({ longConcurrent }) => longConcurrent)).toFixed(0),
    median(runs.map((run) => run.longConcurrent / run.longAlone)).toFixed(2),
  ]
}
