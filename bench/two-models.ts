/** Two models that work at once, with Lookout, which serves both, and with a llama-server for each. */
import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { type Benchmark, type BenchOptions, print } from './support/benchmark.ts'
import { chat, decodingSpeed } from './support/chat.ts'
import { type BenchModel, prepareModel } from './support/models.ts'
import { type Peer, requirePeer } from './support/peer-build.ts'
import { FreshText } from './support/prompts.ts'
import { type BenchServer, startLookout, startPeer } from './support/server.ts'
import { medianRatio, spread } from './support/statistics.ts'
import { table } from './support/table.ts'

const PROMPT_WORDS = 20
const OUTPUT_TOKENS = 48
const SECOND_ID = 'second'

/** Tokens per second of all models together, by repetition. */
interface Speeds {
  readonly one: readonly number[]
  readonly both: readonly number[]
}

export const twoModels: Benchmark = {
  summary: 'two models that work at once: tokens per second of both together, to those of one alone',
  withPeer: true,

  async run(options) {
    const peer = requirePeer()
    for (const name of options.models) print(await compare(peer, await prepareModel(name), options))
  },
}

async function compare(peer: Peer, model: BenchModel, options: BenchOptions): Promise<string> {
  const repetitions = options.repetitions ?? (options.quick ? 3 : 9)
  const folder = await mkdtemp(join(tmpdir(), 'lookout-bench-'))
  try {
    const second = await copyOf(model, folder)
    const rows = [
      row('Lookout', await lookoutSpeeds(model, second, repetitions)),
      row('llama-server', await peerSpeeds(peer, model, repetitions)),
    ]
    return `### Two models at once, ${model.name}, ${model.threads} thread${model.threads === 1 ? '' : 's'} each

A chat with each of two equal models at the same time. Tokens per second of both together after the first of ${OUTPUT_TOKENS}; medians (minimum to maximum) of ${repetitions}.

${table(['server', 'one model, tokens/s', 'both, tokens/s', 'both to one'], rows)}`
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

function row(name: string, { one, both }: Speeds): string[] {
  return [name, spread(one), spread(both), medianRatio(both, one).toFixed(2)]
}

/** The same files under another id. @returns the path of the card. */
async function copyOf(model: BenchModel, folder: string): Promise<string> {
  for (const file of [model.model, ...(model.projector === null ? [] : [model.projector])]) {
    await symlink(file, join(folder, basename(file)))
  }
  const card = JSON.parse(await readFile(model.cardFile, 'utf8')) as { readonly serves: readonly object[] }
  const path = join(folder, 'card.json')
  await writeFile(path, JSON.stringify({ ...card, serves: [{ ...card.serves[0], id: SECOND_ID, aliases: [] }] }))
  return path
}

async function lookoutSpeeds(model: BenchModel, secondCard: string, repetitions: number): Promise<Speeds> {
  await using server = await startLookout(model.cardFile, model.id, {
    environment: { LOOKOUT_MODELS: dirname(secondCard) },
  })
  return await speedsOf([server, { ...server, model: SECOND_ID }], repetitions)
}

async function peerSpeeds(peer: Peer, model: BenchModel, repetitions: number): Promise<Speeds> {
  const settings = { slots: 1, threads: model.threads, contextTokens: model.card.engine.contextTokens }
  await using first = await startPeer(peer, model, settings)
  await using second = await startPeer(peer, model, settings)
  return await speedsOf([first, second], repetitions)
}

async function speedsOf(servers: readonly [BenchServer, BenchServer], repetitions: number): Promise<Speeds> {
  const fresh = new FreshText()
  for (const server of servers) await tokensPerSecond(server, fresh)
  const one: number[] = []
  const both: number[] = []
  for (let run = 0; run < repetitions; run++) {
    one.push(await tokensPerSecond(servers[run % 2]!, fresh))
    const each = await Promise.all(servers.map((server) => tokensPerSecond(server, fresh)))
    both.push(each.reduce((sum, speed) => sum + speed, 0))
  }
  return { one, both }
}

async function tokensPerSecond(server: BenchServer, fresh: FreshText): Promise<number> {
  return decodingSpeed(await chat(server, [{ role: 'user', content: fresh.words(PROMPT_WORDS) }], OUTPUT_TOKENS))
}
