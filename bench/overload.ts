/**
 * More concurrent chats than the queue takes: whether rejected clients that retry exactly after `Retry-After` are then
 * admitted, and how that wait compares with the necessary one.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { Agent } from 'undici'
import { type Benchmark, type BenchOptions, print } from './support/benchmark.ts'
import { chat } from './support/chat.ts'
import { prepareModel } from './support/models.ts'
import { FreshText } from './support/prompts.ts'
import { type BenchServer, startLookout } from './support/server.ts'
import { median, percentile } from './support/statistics.ts'
import { table } from './support/table.ts'

const CHATS = 300
const WORDS = 20
const OUTPUT_TOKENS = [16, 64]
/** The headers that a client may follow, with the unit of each in ms. */
const HEADERS = { 'retry-after': 1000, 'retry-after-ms': 1 } as const
type Header = keyof typeof HEADERS

interface Answer {
  /** Time of the first rejection and the wait that it named, in ms; null for a chat that was not rejected. */
  readonly refused: { readonly at: number; readonly toldMs: number } | null
  readonly refusals: number
  /** Time of the first text, in ms. */
  readonly firstAt: number
}

export const overload: Benchmark = {
  summary: 'a burst of chats beyond the queue: the wait in Retry-After, against the real one',
  withPeer: false,

  async run(options) {
    for (const name of options.models) {
      const model = await prepareModel(name)
      await using server = await startLookout(model.cardFile, model.id)
      const fresh = new FreshText()
      await chat(server, [{ role: 'user', content: fresh.words(WORDS) }], 4)
      const rows: string[][] = []
      for (const tokens of OUTPUT_TOKENS) {
        for (const header of Object.keys(HEADERS) as Header[]) {
          const runs: string[][] = []
          for (let run = 0; run < repetitionsOf(options); run++) {
            const answers = await burst(server, fresh, tokens, header)
            runs.push(summary(answers, model.card.engine.maxSequences))
          }
          for (const [run, cells] of runs.entries())
            rows.push([`${tokens} tokens, \`${header}\`, ${run + 1}`, ...cells])
        }
      }
      print(`### A burst of ${CHATS} chats, ${model.name}

Each has ${WORDS} words; all are sent at once over persistent connections. A rejected chat is sent again exactly after the time in the header. The needed wait of a chat lasts until as many others have their first text as were ahead of it, in the queue and among the rejected.

${table(
  [
    'output, header',
    'time for all, ms',
    'rejected',
    'admitted at the first retry',
    'median wait named, ms',
    'longest wait named, ms',
    'named / needed, median',
    'within a factor of two',
  ],
  rows,
)}`)
    }
  },
}

const repetitionsOf = ({ quick, repetitions }: BenchOptions) => repetitions ?? (quick ? 1 : 3)

async function burst(server: BenchServer, fresh: FreshText, tokens: number, header: Header): Promise<Answer[]> {
  const agent = new Agent({ connections: CHATS })
  const started = performance.now()
  const now = () => performance.now() - started
  const ask = async (content: string): Promise<Answer> => {
    let refused: Answer['refused'] = null
    for (let refusals = 0; ; refusals++) {
      const response = await agent.request({
        origin: server.url,
        path: '/v1/chat/completions',
        method: 'POST',
        headers: { authorization: `Bearer ${server.apiKey}`, 'content-type': 'application/json' },
        body: JSON.stringify({
          model: server.model,
          messages: [{ role: 'user', content }],
          max_completion_tokens: tokens,
          temperature: 0,
          stream: true,
        }),
      })
      if (response.statusCode === 200) {
        let firstAt: number | null = null
        for await (const bytes of response.body) {
          if (firstAt === null && /"content":"[^"]/.test(String(bytes))) firstAt = now()
        }
        return { refused, refusals, firstAt: firstAt ?? now() }
      }
      const body = await response.body.text()
      const told = response.headers[header] ?? response.headers['retry-after']
      if (response.statusCode !== 503 || told === undefined)
        throw new Error(`Unexpected status ${response.statusCode}: ${body}`)
      const unit = response.headers[header] === undefined ? HEADERS['retry-after'] : HEADERS[header]
      const toldMs = Number(told) * unit
      refused ??= { at: now(), toldMs }
      await delay(toldMs)
    }
  }
  const answers = await Promise.all(Array.from({ length: CHATS }, () => ask(fresh.words(WORDS)))).finally(() =>
    agent.close(),
  )
  return [...answers, { refused: null, refusals: 0, firstAt: now() }]
}

/** @param answers the last one holds the time at which all had ended. */
function summary(answers: readonly Answer[], running: number): string[] {
  const endAt = answers.at(-1)!.firstAt
  const firsts = answers.slice(0, -1).map(({ firstAt }) => firstAt)
  firsts.sort((a, b) => a - b)
  const refused = answers.flatMap((answer) => (answer.refused === null ? [] : [{ ...answer, ...answer.refused }]))
  if (refused.length === 0) throw new Error('No chat was rejected: the burst fits the queue.')
  const ratios = refused
    .toSorted((a, b) => a.toldMs - b.toldMs)
    .map(({ at, toldMs }, index) => toldMs / Math.max(1, firsts[running + index]! - at))
  const told = refused.map(({ toldMs }) => toldMs)
  const share = (count: number) => `${((100 * count) / refused.length).toFixed(0)} %`
  return [
    endAt.toFixed(0),
    String(refused.length),
    share(refused.filter(({ refusals }) => refusals === 1).length),
    `${median(told).toFixed(0)}`,
    percentile(told, 1).toFixed(0),
    median(ratios).toFixed(2),
    share(ratios.filter((ratio) => ratio >= 0.5 && ratio <= 2).length),
  ]
}
