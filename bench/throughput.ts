/** Chats over HTTP from 1, 2, 4 and 16 clients, each sending one after another, to Lookout and llama-server in turn. */
import { type Benchmark, type BenchOptions, print } from './support/benchmark.ts'
import { type ChatResult, chat, type Message } from './support/chat.ts'
import { type BenchModel, prepareModel } from './support/models.ts'
import { requirePeer } from './support/peer-build.ts'
import { FreshText } from './support/prompts.ts'
import { type BenchServer, startLookout, startPeer } from './support/server.ts'
import { median, medianRatio } from './support/statistics.ts'
import { table } from './support/table.ts'

export const CLIENTS = [1, 2, 4, 16]
/** In a quick run, for pictures and a large model: it takes a minute for each on two cores. */
const FEW_CLIENTS = [1, 2]
const PROMPT_WORDS = 100
const OUTPUT_TOKENS = 64

export interface Round {
  /** Of all clients together. */
  readonly tokensPerSecond: number
  /** Median of the round's chats. */
  readonly firstMs: number
}

const WARM_UP_ROUNDS = 3

export const throughput: Benchmark = {
  summary: 'chats over HTTP from 1, 2, 4 and 16 clients: tokens per second and time to the first text',
  withPeer: true,

  async run(options) {
    const peer = requirePeer()
    for (const name of options.models) {
      const model = await prepareModel(name, peer)
      await using lookout = await startLookout(model.cardFile, model.id)
      const rows: string[][] = []
      const slots = Math.max(...CLIENTS)
      const peerThreads = options.peerThreads ?? model.threads
      const shared = { slots, threads: peerThreads, contextTokens: model.card.engine.contextTokens }
      await using llamaServer = await startPeer(peer, model, shared)
      const kinds = model.takesImages ? (['text', 'image'] as const) : (['text'] as const)
      for (const kind of kinds) {
        for (const clients of clientsOf(kind, model, options)) {
          rows.push([`${kind}, ${clients}`, ...(await compare(lookout, llamaServer, kind, clients, model, options))])
        }
      }
      print(`### Chat throughput, ${model.name}, ${threadsOf(model.threads, peerThreads)}

New prompts of ${PROMPT_WORDS} words (or a new image and a question), ${OUTPUT_TOKENS} tokens each, streamed; llama-server with ${slots} slots. Medians of ${roundsOf(model, options)} rounds in turn.

${table(
  [
    'prompt, clients',
    'Lookout, tokens/s',
    'llama-server, tokens/s',
    'ratio',
    'Lookout, ms to first text',
    'llama-server, ms to first text',
    'ratio (below 1: Lookout is faster)',
  ],
  rows,
)}`)
    }
  },
}

/** Lookout measures at its start whether all of its threads pay. */
function threadsOf(most: number, peer: number): string {
  const words = (count: number) => `${count} thread${count === 1 ? '' : 's'}`
  return `at most ${words(most)}, llama-server ${words(peer)}`
}

const clientsOf = (kind: 'text' | 'image', { isSmall }: BenchModel, { quick }: BenchOptions) =>
  quick && !isSmall && kind === 'image' ? FEW_CLIENTS : CLIENTS

const roundsOf = (model: BenchModel, { quick, repetitions }: BenchOptions) =>
  repetitions ?? (quick ? 1 : model.isSmall ? 5 : 3)

async function compare(
  lookout: BenchServer,
  llamaServer: BenchServer,
  kind: 'text' | 'image',
  clients: number,
  model: BenchModel,
  options: BenchOptions,
): Promise<string[]> {
  const fresh = new FreshText()
  const own: Round[] = []
  const others: Round[] = []
  const chatsPerClient = model.isSmall && clients < 4 ? 4 : 1
  // Chats with a small model are so short that a new process's first ones, before its code is compiled, would count much.
  if (model.isSmall) {
    for (const server of [lookout, llamaServer]) {
      for (let run = 0; run < WARM_UP_ROUNDS; run++)
        await round(server, await prompts(fresh, kind, clients * chatsPerClient), clients)
    }
  }
  for (let run = 0; run < roundsOf(model, options); run++) {
    const order = run % 2 === 0 ? [lookout, llamaServer] : [llamaServer, lookout]
    for (const server of order) {
      const result = await round(server, await prompts(fresh, kind, clients * chatsPerClient), clients)
      if (server === lookout) own.push(result)
      else others.push(result)
    }
  }
  const speeds = (rounds: readonly Round[]) => rounds.map(({ tokensPerSecond }) => tokensPerSecond)
  const firsts = (rounds: readonly Round[]) => rounds.map(({ firstMs }) => firstMs)
  return [
    median(speeds(own)).toFixed(0),
    median(speeds(others)).toFixed(0),
    medianRatio(speeds(own), speeds(others)).toFixed(2),
    median(firsts(own)).toFixed(0),
    median(firsts(others)).toFixed(0),
    medianRatio(firsts(own), firsts(others)).toFixed(2),
  ]
}

export async function prompts(fresh: FreshText, kind: 'text' | 'image', count: number): Promise<Message[]> {
  const messages: Message[] = []
  for (let i = 0; i < count; i++) {
    const question = { type: 'text', text: `Where is the ${fresh.words(1)} circle?` } as const
    messages.push({
      role: 'user',
      content: kind === 'text' ? fresh.words(PROMPT_WORDS) : [await fresh.image(), question],
    })
  }
  return messages
}

export async function round(server: BenchServer, messages: readonly Message[], clients: number): Promise<Round> {
  const waiting = [...messages]
  const results: ChatResult[] = []
  const started = performance.now()
  const client = async () => {
    for (let message = waiting.pop(); message !== undefined; message = waiting.pop()) {
      results.push(await chat(server, [message], OUTPUT_TOKENS))
    }
  }
  await Promise.all(Array.from({ length: clients }, client))
  const seconds = (performance.now() - started) / 1000
  const tokens = results.reduce((sum, { completionTokens }) => sum + completionTokens, 0)
  if (tokens !== OUTPUT_TOKENS * messages.length) {
    throw new Error(`${server.name} generated ${tokens} tokens instead of ${OUTPUT_TOKENS * messages.length}.`)
  }
  return { tokensPerSecond: tokens / seconds, firstMs: median(results.map(({ firstMs }) => firstMs)) }
}
