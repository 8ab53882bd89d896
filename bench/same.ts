/**
 * Whether a reply depends on its request and the model alone: the same greedy requests in other company, after other requests,
 * and with other cuts of their prompts, against a first run one at a time. It takes no times, so the machine may be busy.
 */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isWeights } from '../src/models/card.ts'
import { type Benchmark, type BenchOptions, print } from './support/benchmark.ts'
import { type Message, post } from './support/chat.ts'
import { warn } from './support/machine.ts'
import { type BenchModel, realModel } from './support/models.ts'
import { findPeer, type Peer } from './support/peer-build.ts'
import { FreshText, QUESTIONS } from './support/prompts.ts'
import { type BenchServer, freePort, startLookout, startPeer } from './support/server.ts'
import { table } from './support/table.ts'

const PROMPTS = 16
const OUTPUT_TOKENS = 48
const QUICK_OUTPUT_TOKENS = 16
const TOP_LOGPROBS = 5
/** So few that cells of ended requests are soon used again. */
const CONTEXT_TOKENS = 4096
const OTHER_REQUESTS = 32
const AT_ONCE = [2, 3, 4, 8, 16]
const SEED = 55
const LONG_WORDS = 600

interface RatedToken {
  readonly token: string
  readonly logprob: number
}
interface Reply {
  readonly text: string
  readonly tokens: readonly (RatedToken & { readonly top_logprobs: readonly RatedToken[] })[]
}

/** What differs between the replies of two runs. */
interface Difference {
  readonly sameTexts: number
  /** Replies of which every log-probability is the same. */
  readonly equal: number
  readonly of: number
  /** Largest difference of a log-probability after the same tokens. */
  readonly largest: number
  /** The first token of any reply whose log-probabilities differ, from 1; infinity for none. */
  readonly first: number
}

/** A server that can be started in several ways. */
interface Subject {
  readonly name: string
  readonly takesImages: boolean
  /** A counter of the server that was started last; null where it has none. */
  count(name: string): Promise<number | null>
  /** @returns null where it has no such setting. */
  start(how: {
    readonly drafts?: boolean
    readonly cache?: boolean
    readonly directory?: string
  }): Promise<BenchServer> | null
}

export const same: Benchmark = {
  summary:
    'the same requests alone, in company, with other cuts and after a restart: equal texts and log-probabilities',
  withPeer: false,
  models: ['half-billion', 'gemma-270m', 'nano'],

  async run(options) {
    const folder = await mkdtemp(join(tmpdir(), 'lookout-same-'))
    try {
      const peer = findPeer()
      const columns: { readonly name: string; readonly cells: ReadonlyMap<string, string> }[] = []
      for (const [index, name] of options.models.entries()) {
        const model = await realModel(name)
        const subjects = [
          await lookout(model, folder),
          ...(peer !== null && index === 0 ? [llamaServer(peer, model)] : []),
        ]
        for (const subject of subjects)
          columns.push({ name: subject.name, cells: await examine(subject, folder, options) })
      }
      const labels = [...new Set(columns.flatMap(({ cells }) => [...cells.keys()]))]
      print(`### The same requests again

${PROMPTS} prompts, ${tokensOf(options)} tokens, temperature 0, ${CONTEXT_TOKENS} cells, against a first run one at a time: how many texts are the same, the largest difference of a log-probability after the same tokens (of the token and the ${TOP_LOGPROBS} likeliest), the first token of any reply at which one differs, and the replies in which none does.

${table(
  ['', ...columns.map(({ name }) => name)],
  labels.map((label) => [label, ...columns.map(({ cells }) => cells.get(label) ?? '-')]),
)}`)
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  },
}

const tokensOf = ({ quick }: BenchOptions) => (quick ? QUICK_OUTPUT_TOKENS : OUTPUT_TOKENS)

async function lookout(model: BenchModel, folder: string): Promise<Subject> {
  const written = isWeights(model.cardFile) ? {} : JSON.parse(await readFile(model.cardFile, 'utf8'))
  const cardWith = async (speculation: boolean) => {
    const { model: file, projector } = model
    const files = projector === null ? { model: file } : { model: file, projector }
    const engine = { ...written.engine, ...files, contextTokens: CONTEXT_TOKENS, speculation }
    const card = join(folder, `${model.id}-${speculation}.json`)
    const limits = { maxContextTokens: CONTEXT_TOKENS, maxOutputTokens: CONTEXT_TOKENS }
    await writeFile(
      card,
      JSON.stringify({ ...written, serves: [{ ...written.serves?.[0], id: model.id, ...limits }], engine }),
    )
    return card
  }
  let metricsPort = 0
  return {
    name: model.name,
    takesImages: model.takesImages,
    async count(name) {
      const metrics = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text()
      return Number(new RegExp(`${name}\\S* (\\d+)`).exec(metrics)?.[1])
    },
    async start({ drafts = true, cache = true, directory }) {
      metricsPort = await freePort()
      const environment = {
        LOOKOUT_METRICS_PORT: String(metricsPort),
        LOOKOUT_LOG_LEVEL: 'error',
        LOOKOUT_PREFIX_CACHE_DISK: '1',
        ...(cache ? {} : { LOOKOUT_PREFIX_CACHE: '0' }),
      }
      return startLookout(await cardWith(drafts), model.id, { environment, directory: directory ?? null })
    },
  }
}

function llamaServer(peer: Peer, model: BenchModel): Subject {
  const settings = { slots: PROMPTS, threads: model.threads, contextTokens: CONTEXT_TOKENS, unified: true }
  return {
    name: `llama-server ${peer.release}, ${model.name}`,
    takesImages: false,
    count: async () => null,
    start: ({ drafts = true, cache = true }) => (drafts && cache ? startPeer(peer, model, settings) : null),
  }
}

/** @returns the cells of its column by the labels of their rows. */
async function examine(subject: Subject, folder: string, options: BenchOptions): Promise<Map<string, string>> {
  const fresh = new FreshText(SEED)
  const texts = textPrompts(fresh)
  const others = Array.from({ length: OTHER_REQUESTS }, () => words(fresh.words(5 + fresh.next(150))))
  const pictures = subject.takesImages ? await imagePrompts(fresh) : []
  const run = (server: BenchServer, prompts: readonly Message[], atOnce = 1) =>
    answers(server, prompts, atOnce, tokensOf(options))
  const directory = await mkdtemp(join(folder, 'data-'))
  const cells = new Map<string, string>()
  const started = async (how: Parameters<Subject['start']>[0], use: (server: BenchServer) => Promise<void>) => {
    const starting = subject.start(how)
    if (starting === null) return
    await using server = await starting
    await use(server)
  }
  let first: readonly Reply[] = []
  let firstOfPictures: readonly Reply[] = []
  const ofPictures: Difference[] = []
  const note = (label: string, value: string) => {
    warn(`${subject.name}, ${label}: ${value}`)
    cells.set(label, value)
  }
  const compare = (label: string, replies: readonly Reply[]) => note(label, cell(difference(first, replies)))
  const comparePictures = async (server: BenchServer, atOnce: number) => {
    if (subject.takesImages) ofPictures.push(difference(firstOfPictures, await run(server, pictures, atOnce)))
  }

  const count = async (label: string, counter: string) => {
    const value = await subject.count(counter)
    if (value !== null) note(label, String(value))
  }

  await started({ directory }, async (server) => {
    first = await run(server, texts)
    await count('tokens drafted in the first run', 'draft_tokens_total')
    if (subject.takesImages) firstOfPictures = await run(server, pictures)
    compare('the same again, one at a time', await run(server, texts))
    for (const clients of AT_ONCE) compare(`${clients} at once`, await run(server, texts, clients))
    await run(server, others, 5)
    compare('after other requests', await run(server, texts))
    compare('after other requests, 4 at once', await run(server, texts, 4))
    for (const clients of [1, 4, 16]) await comparePictures(server, clients)
  })
  await started({}, async (server) => {
    await run(server, texts.map(beginning))
    compare('with beginnings of the prompts in the cache', await run(server, texts))
    await count('tokens of prompts that were in the cache', 'prefix_cache_tokens_total')
    await comparePictures(server, 8)
  })
  await started({}, async (server) => {
    compare('16 at once in a new server', await run(server, texts, 16))
  })
  await started({ drafts: false }, async (server) => {
    compare('without drafts', await run(server, texts))
  })
  await started({ drafts: false, cache: false }, async (server) => {
    compare('without drafts and prefix cache', await run(server, texts))
    compare('without them, 4 at once', await run(server, texts, 4))
  })
  await started({ directory }, async (server) => {
    compare('after a restart, with what is on disk', await run(server, texts))
    await count('prompts that were read from disk', 'prefix_cache_disk_hits_total')
    await comparePictures(server, 1)
  })
  if (subject.takesImages) note('prompts with an image, the worst of five runs', cell(worst(ofPictures)))
  return cells
}

const words = (content: string): Message => ({ role: 'user', content })

/** Half of them ask for a copy, which drafts are for. The last two are longer than the sliding window of any of the models. */
function textPrompts(fresh: FreshText): Message[] {
  return Array.from({ length: PROMPTS }, (_, index) => {
    const text = fresh.words(index < PROMPTS - 2 ? 8 + 11 * index : LONG_WORDS)
    return words(index % 2 === 0 ? `Repeat these words: ${text}` : `${text}\nWhat do these words have in common?`)
  })
}

async function imagePrompts(fresh: FreshText): Promise<Message[]> {
  const ask = async (text: string): Promise<Message> => ({
    role: 'user',
    content: [await fresh.image(), { type: 'text', text }],
  })
  return Promise.all(QUESTIONS.slice(0, PROMPTS).map(ask))
}

/** A request whose prompt has somewhat more than half of the message in common with it. */
const beginning = ({ content }: Message, index: number): Message =>
  words(`${String(content).slice(0, Math.ceil(String(content).length * (0.5 + index / 40)))} and so on`)

async function answers(
  server: BenchServer,
  messages: readonly Message[],
  atOnce: number,
  maxTokens: number,
): Promise<Reply[]> {
  const replies: Reply[] = []
  let next = 0
  const client = async () => {
    while (next < messages.length) {
      const index = next++
      replies[index] = await answer(server, messages[index]!, maxTokens)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, client))
  return replies
}

async function answer(server: BenchServer, message: Message, maxTokens: number): Promise<Reply> {
  const response = await post(server, '/v1/chat/completions', {
    model: server.model,
    messages: [message],
    max_tokens: maxTokens,
    temperature: 0,
    logprobs: true,
    top_logprobs: TOP_LOGPROBS,
  })
  const { choices } = (await response.json()) as {
    choices: [{ message: { content: string }; logprobs: { content: Reply['tokens'] } }]
  }
  return {
    text: choices[0].message.content,
    tokens: choices[0].logprobs.content,
  }
}

function difference(first: readonly Reply[], replies: readonly Reply[]): Difference {
  const pairs = first.map((reply, index) => [reply, replies[index]!] as const)
  const firstTokens = pairs
    .map(([a, b]) => tokenDifferences(a, b).findIndex((value) => value > 0) + 1)
    .filter((at) => at > 0)
  return {
    sameTexts: pairs.filter(([a, b]) => a.text === b.text).length,
    equal: pairs.length - firstTokens.length,
    of: pairs.length,
    largest: Math.max(0, ...pairs.flatMap(([a, b]) => tokenDifferences(a, b))),
    first: Math.min(...firstTokens),
  }
}

/** The largest difference of a log-probability at each token, up to the first that is another: what follows depends on it. */
function tokenDifferences(a: Reply, b: Reply): number[] {
  const values: number[] = []
  for (const [index, token] of a.tokens.entries()) {
    const other = b.tokens[index]
    if (other === undefined) break
    const others = new Map([...other.top_logprobs, other].map((one) => [one.token, one.logprob]))
    const common = [...token.top_logprobs, token].filter((one) => others.has(one.token))
    values.push(Math.max(...common.map((one) => Math.abs(one.logprob - others.get(one.token)!))))
    if (token.token !== other.token) break
  }
  return values
}

const worst = (differences: readonly Difference[]): Difference => ({
  sameTexts: Math.min(...differences.map(({ sameTexts }) => sameTexts)),
  equal: Math.min(...differences.map(({ equal }) => equal)),
  of: differences[0]!.of,
  largest: Math.max(...differences.map(({ largest }) => largest)),
  first: Math.min(...differences.map(({ first }) => first)),
})

function cell({ sameTexts, equal, of, largest, first }: Difference): string {
  if (largest === 0) return `${sameTexts} of ${of}, 0.0000`
  const most = largest < 0.00005 ? largest.toExponential(0) : largest.toFixed(4)
  return `${sameTexts} of ${of}, ${most} from token ${first} (${equal} equal)`
}
