/** Chats over HTTP from 1, 2, 4 and 16 clients, each sending one after another, to Lookout and another server in turn. */
import { againstTable, otherServer, roundsAgainst } from './support/against.ts'
import { type Benchmark, type BenchOptions, print } from './support/benchmark.ts'
import { type ChatResult, chat, type Message } from './support/chat.ts'
import { inTurn } from './support/in-turn.ts'
import { type BenchModel, prepareModel } from './support/models.ts'
import { FreshText } from './support/prompts.ts'
import { type BenchServer, startLookout } from './support/server.ts'
import { median, medianRatio } from './support/statistics.ts'
import { table } from './support/table.ts'

export const CLIENTS = [1, 2, 4, 16]
/** In a quick run, for pictures and a large model: it takes a minute for each on two cores. */
const FEW_CLIENTS = [1, 2]
const PROMPT_WORDS = 100
const OUTPUT_TOKENS = 64

export interface Round {
  /** Speed of all clients together. */
  readonly tokensPerSecond: number
  /** Median of the round's chats. */
  readonly firstMs: number
}

/** Values of both servers, in pairs. */
interface Row {
  readonly name: string
  readonly own: readonly Round[]
  readonly others: readonly Round[]
}

const WARM_UP_ROUNDS = 3

export const throughput: Benchmark = {
  summary: 'chats over HTTP from 1, 2, 4 and 16 clients: tokens per second and time to the first text',
  withPeer: true,
  comparesTrees: true,

  async run(options) {
    const startOther = otherServer(options)
    for (const name of options.models) {
      const model = await prepareModel(name)
      await using lookout = await startLookout(model.cardFile, model.id)
      const rows: Row[] = []
      const slots = Math.max(...CLIENTS)
      const peerThreads = options.peerThreads ?? model.threads
      const shared = { slots, threads: peerThreads, contextTokens: model.card.engine.contextTokens }
      await using other = await startOther(model, shared)
      const kinds = model.takesImages ? (['text', 'image'] as const) : (['text'] as const)
      for (const kind of kinds) {
        for (const clients of clientsOf(kind, model, options)) {
          rows.push({ name: `${kind}, ${clients}`, ...(await compare(lookout, other, kind, clients, model, options)) })
        }
      }
      const about = `New prompts of ${PROMPT_WORDS} words (or a new image and a question), ${OUTPUT_TOKENS} tokens each, streamed`
      if (options.against !== null) {
        const of = ({ name, own, others }: Row, figure: keyof Round, unit: string) => ({
          row: `${name}, ${unit}`,
          now: own.map((round) => round[figure]),
          other: others.map((round) => round[figure]),
        })
        const figures = rows.flatMap((row) => [
          of(row, 'tokensPerSecond', 'tokens/s'),
          of(row, 'firstMs', 'ms to first text'),
        ])
        print(againstTable(`Chat throughput, ${model.name}`, `${about}.`, roundsOf(model, options), figures))
        continue
      }
      print(`### Chat throughput, ${model.name}, ${threadsOf(model.threads, peerThreads)}

${about}; llama-server with ${slots} slots. Medians of ${roundsOf(model, options)} rounds in turn.

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
  rows.map(peerRow),
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

function roundsOf(model: BenchModel, options: BenchOptions): number {
  const { against, quick, repetitions } = options
  return against === null ? (repetitions ?? (quick ? 1 : model.isSmall ? 5 : 3)) : roundsAgainst(options, model)
}

async function compare(
  lookout: BenchServer,
  other: BenchServer,
  kind: 'text' | 'image',
  clients: number,
  model: BenchModel,
  options: BenchOptions,
): Promise<Pick<Row, 'own' | 'others'>> {
  const fresh = new FreshText()
  const chatsPerClient = model.isSmall && clients < 4 ? 4 : 1
  const measure = (server: BenchServer) => async () =>
    round(server, await prompts(fresh, kind, clients * chatsPerClient), clients)
  // Chats with a small model are so short that a new process's first ones, before its code is compiled, would count much.
  if (model.isSmall) await inTurn(WARM_UP_ROUNDS, () => {}, measure(lookout), measure(other))
  const [own, others] = await inTurn(roundsOf(model, options), () => {}, measure(lookout), measure(other))
  return { own, others }
}

function peerRow({ name, own, others }: Row): string[] {
  const cells = (figure: keyof Round) => {
    const [mine, theirs] = [own, others].map((rounds) => rounds.map((round) => round[figure])) as [number[], number[]]
    return [median(mine).toFixed(0), median(theirs).toFixed(0), medianRatio(mine, theirs).toFixed(2)]
  }
  return [name, ...cells('tokensPerSecond'), ...cells('firstMs')]
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
