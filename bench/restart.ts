/**
 * Time to the first text in the next turn of a chat about an image: in the same server, and after the server was stopped
 * and started again, with and without the prefix cache on disk.
 */
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Benchmark, print } from './support/benchmark.ts'
import { chat, type Message } from './support/chat.ts'
import { type BenchModel, prepareModel } from './support/models.ts'
import { FreshText, QUESTIONS } from './support/prompts.ts'
import { type BenchServer, startLookout } from './support/server.ts'
import { median, medianRatio } from './support/statistics.ts'
import { table } from './support/table.ts'

const OUTPUT_TOKENS = 32
const DISK_GIB = 4

/** Times to the first text, in ms. */
interface Times {
  readonly first: number
  readonly next: number
  readonly restarted: number
  readonly restartedWithout: number
  readonly promptTokens: number
  readonly diskBytes: number
}

export const restart: Benchmark = {
  summary: 'the next turn of a chat about an image after a restart of the server, with and without the disk',
  withPeer: false,

  async run({ models, quick, repetitions }) {
    const rows: string[][] = []
    const count = repetitions ?? (quick ? 1 : 3)
    for (const name of models) {
      const model = await prepareModel(name)
      if (!model.takesImages) continue
      const times: Times[] = []
      for (let run = 0; run < count; run++) times.push(await measure(model))
      const of = (which: keyof Times) => times.map((time) => time[which])
      const ms = (which: keyof Times) => median(of(which)).toFixed(0)
      rows.push([
        model.name,
        ms('first'),
        ms('next'),
        ms('restarted'),
        ms('restartedWithout'),
        medianRatio(of('restarted'), of('first')).toFixed(3),
        ms('promptTokens'),
        (median(of('diskBytes')) / 2 ** 20).toFixed(0),
      ])
    }
    print(`### Restart

A chat about an image, ${OUTPUT_TOKENS} tokens for each turn; median time to the first text in ms, of ${count} chats. The third turn is asked after a restart: of a server with \`LOOKOUT_PREFIX_CACHE_DISK=${DISK_GIB}\`, and of one without. What the disk has is read from the system's memory if it is still there.

${table(
  [
    'model',
    'turn 1',
    'turn 2',
    'turn 3, restarted',
    'turn 3, restarted without the disk',
    'restarted / turn 1',
    "tokens of turn 3's prompt",
    'MiB on disk',
  ],
  rows,
)}`)
  },
}

async function measure(model: BenchModel): Promise<Times> {
  const [kept, empty] = [await newFolder(), await newFolder()]
  const start = (directory: string, gib: number) =>
    startLookout(model.cardFile, model.id, { directory, environment: { LOOKOUT_PREFIX_CACHE_DISK: String(gib) } })
  const side = Math.min(1024, 32 * Math.floor(Math.sqrt(model.card.image?.maxTokens ?? 0)))
  const fresh = new FreshText()
  const image = await fresh.image({ width: side, height: side })
  const messages: Message[] = [{ role: 'user', content: [image, { type: 'text', text: QUESTIONS[0]! }] }]
  const ask = async (server: BenchServer) => chat(server, messages, OUTPUT_TOKENS)
  const goOn = (text: string, turn: number) =>
    messages.push({ role: 'assistant', content: text }, { role: 'user', content: QUESTIONS[turn]! })
  try {
    const times = { first: 0, next: 0 }
    {
      await using server = await start(kept, DISK_GIB)
      await chat(server, [{ role: 'user', content: QUESTIONS.at(-1)! }], OUTPUT_TOKENS)
      const first = await ask(server)
      goOn(first.text, 1)
      const next = await ask(server)
      goOn(next.text, 2)
      times.first = first.firstMs
      times.next = next.firstMs
    }
    const diskBytes = await bytesIn(join(kept, 'prefixes'))
    const third = async (directory: string, gib: number) => {
      await using server = await start(directory, gib)
      await chat(server, [{ role: 'user', content: QUESTIONS.at(-1)! }], OUTPUT_TOKENS)
      return await ask(server)
    }
    const restarted = await third(kept, DISK_GIB)
    const without = await third(empty, 0)
    return {
      ...times,
      restarted: restarted.firstMs,
      restartedWithout: without.firstMs,
      promptTokens: restarted.promptTokens,
      diskBytes,
    }
  } finally {
    for (const folder of [kept, empty]) await rm(folder, { recursive: true, force: true })
  }
}

const newFolder = () => mkdtemp(join(tmpdir(), 'lookout-bench-'))

async function bytesIn(folder: string): Promise<number> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile())
  const sizes = await Promise.all(files.map(async ({ parentPath, name }) => (await stat(join(parentPath, name))).size))
  return sizes.reduce((sum, size) => sum + size, 0)
}
