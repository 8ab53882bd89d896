/** Time to the first text in the fifth turn of a chat, against the first turn: the effect of the prompt cache. */
import { type Benchmark, type BenchOptions, print } from './support/benchmark.ts'
import { type ChatResult, chat, type Message } from './support/chat.ts'
import { type BenchModel, prepareModel } from './support/models.ts'
import { requirePeer } from './support/peer-build.ts'
import { FreshText, QUESTIONS } from './support/prompts.ts'
import { type BenchServer, startLookout, startPeer } from './support/server.ts'
import { median, medianRatio } from './support/statistics.ts'
import { table } from './support/table.ts'

const TURNS = 5
const OUTPUT_TOKENS = 32
const LONG_TEXT_WORDS = 1010
const SLOTS = 4

type Opening = (fresh: FreshText) => Promise<Message>

const IMAGE: Opening = async (fresh) => ({
  role: 'user',
  content: [await fresh.image(), { type: 'text', text: QUESTIONS[0]! }],
})
const LONG_TEXT: Opening = async (fresh) => ({ role: 'user', content: fresh.words(LONG_TEXT_WORDS) })

export const conversation: Benchmark = {
  summary: 'the fifth turn of a chat against its first: time to the first text',
  withPeer: true,

  async run(options) {
    const peer = requirePeer()
    const rows: string[][] = []
    for (const name of options.models) {
      const model = await prepareModel(name, peer)
      await using lookout = await startLookout(model.cardFile, model.id)
      const shared = { slots: SLOTS, threads: model.threads, contextTokens: model.card.engine.contextTokens }
      await using llamaServer = await startPeer(peer, model, shared)
      for (const opening of model.takesImages ? [IMAGE, LONG_TEXT] : [LONG_TEXT]) {
        const kind = opening === IMAGE ? 'an image' : '1,024 tokens of text'
        rows.push(...(await compare(`${model.name}, ${kind}`, model, [lookout, llamaServer], opening, options)))
      }
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
    `tokens of turn ${TURNS}'s prompt`,
    'of them cached',
  ],
  rows,
)}`)
  },
}

const chatsOf = (small: boolean, { quick, repetitions }: BenchOptions) => repetitions ?? (quick ? 2 : small ? 15 : 3)

async function compare(
  label: string,
  model: BenchModel,
  servers: readonly BenchServer[],
  opening: Opening,
  options: BenchOptions,
): Promise<string[][]> {
  const fresh = new FreshText()
  const turns = new Map(servers.map((server) => [server, [] as ChatResult[][]]))
  for (const server of servers) await talk(server, { role: 'user', content: 'Hello' })
  for (let run = 0; run < chatsOf(model.isSmall, options); run++) {
    const message = await opening(fresh)
    for (const server of run % 2 === 0 ? servers : servers.toReversed()) {
      turns.get(server)!.push(await talk(server, message))
    }
  }
  return [...turns].map(([server, chats]) => {
    const first = chats.map((results) => results[0]!.firstMs)
    const last = chats.map((results) => results.at(-1)!.firstMs)
    const { promptTokens, cachedTokens } = chats.at(-1)!.at(-1)!
    const told = server.name === 'Lookout' && cachedTokens === 0 ? 'not reported' : String(cachedTokens)
    return [
      label,
      server.name,
      median(first).toFixed(0),
      median(last).toFixed(0),
      medianRatio(last, first).toFixed(2),
      String(promptTokens),
      told,
    ]
  })
}

/** A chat in which every answer becomes part of the next prompt. */
async function talk(server: BenchServer, opening: Message): Promise<ChatResult[]> {
  const messages: Message[] = [opening]
  const results: ChatResult[] = []
  for (let turn = 0; turn < TURNS; turn++) {
    const result = await chat(server, messages, OUTPUT_TOKENS)
    results.push(result)
    const question = { role: 'user', content: QUESTIONS[turn + 1]! } as const
    messages.push({ role: 'assistant', content: result.text }, question)
  }
  return results
}
