/**
 * Time to the first text in the fifth turn of a chat, and in another chat about the same image or text, against the first
 * turn: the effect of the prompt cache.
 */
import { type Benchmark, type BenchOptions, print } from './support/benchmark.ts'
import { type ChatResult, chat, type Message } from './support/chat.ts'
import { type BenchModel, prepareModel } from './support/models.ts'
import { requirePeer } from './support/peer-build.ts'
import { FreshText, QUESTIONS } from './support/prompts.ts'
import { type BenchServer, startLookout, startPeer } from './support/server.ts'
import { median, medianRatio } from './support/statistics.ts'
import { table } from './support/table.ts'

const TURNS = 5
/** Tokens of each reply. */
const OUTPUT_TOKENS = 32
const LONG_TEXT_WORDS = 1010
const SLOTS = 4

/** Side of an image of 1,024 tokens, where a token is 32 x 32 pixels. */
const LARGE_IMAGE_SIDE = 1024
const LARGE_IMAGE_TOKENS = 1024

/** What a chat is about. */
export interface Subject {
  readonly name: string
  /** @returns the first message that asks a question about it. */
  readonly create: (fresh: FreshText) => Promise<(question: string) => Message>
}

const imageOf = (name: string, side?: number): Subject => ({
  name,
  create: async (fresh) => {
    const image = await fresh.image(side === undefined ? undefined : { width: side, height: side })
    return (text) => ({ role: 'user', content: [image, { type: 'text', text }] })
  },
})
const IMAGE = imageOf('an image')
const LARGE_IMAGE = imageOf('an image of 1,024 tokens', LARGE_IMAGE_SIDE)
const LONG_TEXT: Subject = {
  name: '1,024 tokens of text',
  create: async (fresh) => {
    const words = fresh.words(LONG_TEXT_WORDS)
    return (question) => ({ role: 'user', content: `${words}\n${question}` })
  },
}

export function subjectsOf({ card, takesImages }: BenchModel): readonly Subject[] {
  if (!takesImages) return [LONG_TEXT]
  return (card.image?.maxTokens ?? 0) < LARGE_IMAGE_TOKENS ? [IMAGE, LONG_TEXT] : [LARGE_IMAGE, LONG_TEXT]
}

export interface Talk {
  readonly turns: readonly ChatResult[]
  /** The first turn of another chat about the same. */
  readonly again: ChatResult
}

export const conversation: Benchmark = {
  summary: 'the fifth turn of a chat, and a second chat about the same, against the first turn',
  withPeer: true,

  async run(options) {
    const peer = requirePeer()
    const rows: string[][] = []
    for (const name of options.models) {
      const model = await prepareModel(name)
      await using lookout = await startLookout(model.cardFile, model.id)
      const shared = { slots: SLOTS, threads: model.threads, contextTokens: model.card.engine.contextTokens }
      await using llamaServer = await startPeer(peer, model, shared)
      for (const subject of subjectsOf(model))
        rows.push(...(await compare(model, [lookout, llamaServer], subject, options)))
    }
    print(`### Conversation

A chat of ${TURNS} turns, ${OUTPUT_TOKENS} tokens each; median time to the first text in ms, of ${options.models.map((name) => chatsOf(name === 'nano', options)).join(' and ')} chats in turn.

${table(
  [
    'chat about',
    'server',
    'turn 1',
    `turn ${TURNS}`,
    `turn ${TURNS} / turn 1`,
    'another chat / turn 1',
    `tokens of turn ${TURNS}'s prompt`,
    'of them cached',
  ],
  rows,
)}`)
  },
}

const chatsOf = (small: boolean, { quick, repetitions }: BenchOptions) => repetitions ?? (quick ? 2 : small ? 15 : 3)

async function compare(
  model: BenchModel,
  servers: readonly BenchServer[],
  subject: Subject,
  options: BenchOptions,
): Promise<string[][]> {
  const fresh = new FreshText()
  const turns = new Map(servers.map((server) => [server, [] as Talk[]]))
  for (const server of servers) await talk(server, (content) => ({ role: 'user', content }))
  for (let run = 0; run < chatsOf(model.isSmall, options); run++) {
    const ask = await subject.create(fresh)
    for (const server of run % 2 === 0 ? servers : servers.toReversed()) {
      turns.get(server)!.push(await talk(server, ask))
    }
  }
  return [...turns].map(([server, chats]) => {
    const first = chats.map(({ turns }) => turns[0]!.firstMs)
    const last = chats.map(({ turns }) => turns.at(-1)!.firstMs)
    const again = chats.map((chat) => chat.again.firstMs)
    const { promptTokens, cachedTokens } = chats.at(-1)!.turns.at(-1)!
    const told = server.name === 'Lookout' && cachedTokens === 0 ? 'not reported' : String(cachedTokens)
    return [
      `${model.name}, ${subject.name}`,
      server.name,
      median(first).toFixed(0),
      median(last).toFixed(0),
      medianRatio(last, first).toFixed(3),
      medianRatio(again, first).toFixed(3),
      String(promptTokens),
      told,
    ]
  })
}

/** A chat in which every answer becomes part of the next prompt, and then one that asks something else about the same. */
export async function talk(server: BenchServer, ask: (question: string) => Message): Promise<Talk> {
  const messages: Message[] = [ask(QUESTIONS[0]!)]
  const turns: ChatResult[] = []
  for (let turn = 0; turn < TURNS; turn++) {
    const result = await chat(server, messages, OUTPUT_TOKENS)
    turns.push(result)
    const question = { role: 'user', content: QUESTIONS[turn + 1]! } as const
    messages.push({ role: 'assistant', content: result.text }, question)
  }
  return { turns, again: await chat(server, [ask(QUESTIONS[TURNS + 1]!)], OUTPUT_TOKENS) }
}
