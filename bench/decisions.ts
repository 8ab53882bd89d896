/**
 * Questions with known answers about one picture that neither server has seen: one call for decisions to Lookout, against a
 * chat of one token with `logprobs` for each question to llama-server, all sent at once.
 */
import { availableParallelism } from 'node:os'
import { againstTable, type Compared, otherServer, roundsAgainst } from './support/against.ts'
import { type Benchmark, type BenchOptions, print } from './support/benchmark.ts'
import { post } from './support/chat.ts'
import { type Answered, decide, shareRight } from './support/decide.ts'
import { inTurn } from './support/in-turn.ts'
import { type KnownPicture, knownPicture } from './support/known-picture.ts'
import { type BenchModel, shippedModel } from './support/models.ts'
import { FreshText } from './support/prompts.ts'
import { type BenchServer, startLookout } from './support/server.ts'
import { medianRatio, spread } from './support/statistics.ts'
import { table } from './support/table.ts'

const QUESTIONS = [64, 400] as const
/**
 * Each slot of llama-server encodes the picture for itself; later questions in it reuse the prefix. With sixteen it was slower
 * than with four or one in every run.
 */
export const SLOTS = [1, 4] as const
/** Both replies have to be among them. */
const TOP_LOGPROBS = 20

const ABOUT = 'Yes-or-no questions about one new picture, half of them with the answer yes'

export const decisions: Benchmark = {
  summary: '64 and 400 questions about one picture in one call, against chats with logprobs to llama-server',
  withPeer: true,
  comparesTrees: true,

  async run(options) {
    const startOther = otherServer(options)
    // Its answers count, so it has its own weights.
    const model = await shippedModel()
    await using lookout = await startLookout(model.cardFile, model.id)
    if (options.against !== null) {
      await using other = await startOther(model, {
        slots: 1,
        threads: 1,
        contextTokens: model.card.engine.contextTokens,
      })
      return print(await againstTree(model, lookout, other, options))
    }
    const most = availableParallelism()
    const threadCounts = options.peerThreads === null ? [...new Set([1, most])] : [options.peerThreads]
    const rows: string[][] = []
    for (const [slots, threads] of SLOTS.flatMap((slots) => threadCounts.map((count) => [slots, count] as const))) {
      const shared = { slots, threads, contextTokens: model.card.engine.contextTokens, unified: true }
      await using llamaServer = await startOther(model, shared)
      for (const count of QUESTIONS) {
        rows.push([
          String(count),
          String(slots),
          String(threads),
          ...peerCells(await measure(lookout, llamaServer, count, repetitionsOf(options), chats)),
        ])
      }
    }
    print(`### Decisions, ${model.name}, ${model.threads} thread${model.threads === 1 ? '' : 's'}

${ABOUT}; medians (minimum to maximum) of ${repetitionsOf(options)} repetitions in turn. llama-server has one KV cache (\`--kv-unified\`).

${table(
  [
    'questions',
    'slots of llama-server',
    'its threads',
    'Lookout, ms',
    'llama-server, ms',
    'times faster',
    'right, Lookout',
    'right, llama-server',
  ],
  rows,
)}`)
  },
}

function repetitionsOf({ quick, repetitions }: BenchOptions): number {
  return repetitions ?? (quick ? 1 : 5)
}

async function againstTree(
  model: BenchModel,
  lookout: BenchServer,
  other: BenchServer,
  options: BenchOptions,
): Promise<string> {
  const rounds = roundsAgainst(options, model)
  const rows: Compared[] = []
  for (const count of QUESTIONS) {
    const { own, others } = await measure(lookout, other, count, rounds, decide)
    rows.push({ row: `${count} questions, ms`, now: times(own), other: times(others) })
  }
  return againstTable(`Decisions, ${model.name}`, `${ABOUT}.`, rounds, rows)
}

interface Pairs {
  readonly own: readonly Answered[]
  readonly others: readonly Answered[]
  readonly pictures: readonly KnownPicture[]
}

async function measure(
  lookout: BenchServer,
  other: BenchServer,
  count: number,
  rounds: number,
  ask: (server: BenchServer, picture: KnownPicture) => Promise<Answered>,
): Promise<Pairs> {
  const fresh = new FreshText()
  const pictures: KnownPicture[] = []
  const byLookout = (picture: KnownPicture) => decide(lookout, picture)
  const byOther = (picture: KnownPicture) => ask(other, picture)
  // The first call of each is a warm-up, in which memory is touched for the first time.
  await inTurn(1, () => knownPicture(fresh, 16), byLookout, byOther)
  const next = async () => {
    pictures.push(await knownPicture(fresh, count))
    return pictures.at(-1)!
  }
  const [own, others] = await inTurn(rounds, next, byLookout, byOther)
  return { own, others, pictures }
}

const times = (results: readonly Answered[]) => results.map(({ totalMs }) => totalMs)

function peerCells({ own, others, pictures }: Pairs): string[] {
  return [
    spread(times(own), 0),
    spread(times(others), 0),
    medianRatio(times(others), times(own)).toFixed(1),
    shareRight(own, pictures),
    shareRight(others, pictures),
  ]
}

interface RatedChat {
  readonly choices: readonly [
    { readonly logprobs: { readonly content: readonly [{ readonly top_logprobs: readonly RatedToken[] }] } },
  ]
}
interface RatedToken {
  readonly token: string
  readonly logprob: number
}

/** The picture comes first, so that the prompts of a slot share it. */
export async function chats(server: BenchServer, { url, questions }: KnownPicture): Promise<Answered> {
  const started = performance.now()
  const answers = await Promise.all(
    questions.map(async ({ question }) => {
      const content = [
        { type: 'image_url', image_url: { url } },
        { type: 'text', text: question },
      ]
      const response = await post(server, '/v1/chat/completions', {
        model: server.model,
        messages: [{ role: 'user', content }],
        max_tokens: 1,
        temperature: 0,
        logprobs: true,
        top_logprobs: TOP_LOGPROBS,
        cache_prompt: true,
      })
      const { choices } = (await response.json()) as RatedChat
      const tokens = choices[0].logprobs.content[0].top_logprobs
      const likelihood = (word: string) =>
        tokens.find(({ token }) => token.trim() === word)?.logprob ?? Number.NEGATIVE_INFINITY
      return likelihood('Yes') > likelihood('No')
    }),
  )
  return { totalMs: performance.now() - started, answers }
}
