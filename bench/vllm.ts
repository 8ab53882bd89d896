/**
 * Lookout before vLLM against vLLM's own chat endpoint, on vLLM for CPUs: what the way through Lookout costs, and multilook
 * against as many chats. Lookout's share of the cores is the larger, the smaller the model: the shipped one is the worst
 * case, and one of 0.6 billion parameters is nearer to what a cluster serves.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { exportModel } from '../src/hugging-face/export-model.ts'
import { loadCard } from '../src/models/card.ts'
import { installVllm } from '../test/support/vllm/environment.ts'
import { MODEL, Vllm } from '../test/support/vllm/server.ts'
import { type Benchmark, type BenchOptions, print } from './support/benchmark.ts'
import { type CallResult, chat, chatsAtOnce, type Message, multilook } from './support/chat.ts'
import { type BenchModelName, prepareModel, SHIPPED_CARD } from './support/models.ts'
import { FreshText, QUESTIONS } from './support/prompts.ts'
import { type BenchServer, startLookout } from './support/server.ts'
import { median, medianRatio, spread } from './support/statistics.ts'
import { table } from './support/table.ts'

/** Its threads wait for each other in loops: with one for each core, any other process slows them down many times over. */
const THREADS = Math.max(1, availableParallelism() - 1)
const CLIENTS = [1, 4, 16]
const PROMPT_WORDS = 100
const OUTPUT_TOKENS = 64
const PROMPTS = 16
const ID = 'on-vllm'
const PROMPT_TOKENS = 32

/** Has both write as much: each would end its answer where the other does not. */
const NUMBERS = { type: 'array', items: { type: 'integer' }, minItems: 64, maxItems: 64 }
const LONG_REPLY = {
  response_format: {
    type: 'json_schema',
    json_schema: {
      name: 'numbers',
      schema: { type: 'object', properties: { numbers: NUMBERS }, required: ['numbers'], additionalProperties: false },
    },
  },
}
/** As many tokens as the card allows, so that both see the same image. */
const IMAGE = { width: 512, height: 384 }
/** As the servers of vLLM are started: Lookout enlarges images of other models of this kind. */
const IMAGES = { pixelsPerToken: 32, minTokens: 128, maxTokens: 200 }

interface Round {
  readonly tokensPerSecond: number
  readonly firstMs: number
}

export const vllm: Benchmark = {
  summary: "Lookout before vLLM against vLLM's own chat endpoint (installs vLLM for CPUs, 3.5 GB)",
  withPeer: false,

  async run(options) {
    const python = await installVllm((line) => process.stderr.write(`${line}\n`))
    for (const served of options.models.flatMap((name) => SERVED.filter((served) => served.name === name))) {
      const cardFile = served.name === 'nano' ? SHIPPED_CARD : (await prepareModel(served.name)).cardFile
      await measure(python, { ...served, cardFile }, options)
    }
  },
}

interface Served {
  readonly name: BenchModelName
  readonly title: string
  /** In each round. */
  readonly chatsPerClient: number
  /** Further arguments of vLLM. */
  readonly args: readonly string[]
}

/** ChatML with images, which vLLM writes for its own endpoint; that of the file has only text. */
const CHAT_TEMPLATE = `{% for message in messages %}<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}{% if part.type == 'text' %}{{ part.text }}{% else %}<|vision_start|><|image_pad|><|vision_end|>{% endif %}{% endfor %}{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`

/** Those of the benchmarks' models that can be exported. */
const SERVED: readonly Served[] = [
  { name: 'nano', title: 'the shipped model', chatsPerClient: 3, args: [] },
  {
    name: 'six-hundred-million',
    title: 'a model of 0.6 billion parameters in BF16',
    chatsPerClient: 1,
    args: ['--dtype', 'bfloat16', '--chat-template', CHAT_TEMPLATE],
  },
]

async function measure(
  python: string,
  served: Served & { readonly cardFile: string },
  options: BenchOptions,
): Promise<void> {
  const { title, cardFile, args } = served
  const folder = await mkdtemp(join(tmpdir(), 'lookout-bench-vllm-'))
  const model = join(folder, 'model')
  try {
    await exportModel(await loadCard(cardFile), model, new AbortController().signal)
    for (const prefixCaching of [true, false]) {
      await using server = await Vllm.start({ python, model }, { prefixCaching, threads: THREADS, args })
      // Ended by itself, so that what it took of the processors counts as this command's own.
      await using _ = { [Symbol.asyncDispose]: () => server.stop() }
      const direct = asBenchServer(server)
      await using lookout = await startLookout(await writeCard(folder, server.url, model), ID)
      const cache = prefixCaching ? 'with its prefix cache' : 'without its prefix cache'
      if (prefixCaching) await printChats(served, lookout, direct, options)
      print(`### Multilook on vLLM ${cache}, ${title}

${PROMPTS} questions about one new context, ${PROMPT_TOKENS} tokens each at most: one call to Lookout against ${PROMPTS} chats to vLLM at once. Medians of ${repetitions(options)} in turn.

${table(
  ['context', 'Lookout, ms', 'vLLM, ms', 'times faster'],
  [
    ['text, 1,000 words', ...(await compareMultilook(lookout, direct, 'text', options))],
    ['image', ...(await compareMultilook(lookout, direct, 'image', options))],
  ],
)}`)
    }
  } finally {
    await rm(folder, { recursive: true })
  }
}

/** A card that leaves most to the exported model. @returns its path. */
async function writeCard(folder: string, url: string, tokenizer: string): Promise<string> {
  const file = join(folder, 'card.json')
  const served = {
    id: ID,
    capabilities: ['response_format_json_schema'],
    modalities: ['text', 'image'],
    outputFormats: ['text'],
  }
  const engine = { type: 'vllm', urls: [url], model: MODEL, tokenizer, contextTokens: 8192, maxSequences: 16 }
  await writeFile(file, JSON.stringify({ serves: [served], engine, schemaPrompt: null, image: IMAGES }))
  return file
}

const repetitions = ({ quick, repetitions }: BenchOptions) => repetitions ?? (quick ? 1 : 5)

function asBenchServer({ url, pid }: Vllm): BenchServer {
  return { name: 'vLLM', url, apiKey: 'none', model: MODEL, pid, readyMs: 0, async [Symbol.asyncDispose]() {} }
}

async function printChats(
  { title, chatsPerClient }: Served,
  lookout: BenchServer,
  direct: BenchServer,
  options: BenchOptions,
): Promise<void> {
  const rows: string[][] = []
  for (const kind of ['text', 'image'] as const) {
    for (const clients of CLIENTS) {
      const fresh = new FreshText()
      const own: Round[] = []
      const others: Round[] = []
      for (let run = -1; run < repetitions(options); run++) {
        for (const server of run % 2 === 0 ? [lookout, direct] : [direct, lookout]) {
          const chats = await newChats(fresh, kind, clients * chatsPerClient)
          const result = await round(server, chats, clients)
          // The first round of each is a warm-up.
          if (run >= 0) (server === lookout ? own : others).push(result)
        }
      }
      const speeds = (rounds: readonly Round[]) => rounds.map(({ tokensPerSecond }) => tokensPerSecond)
      const firsts = (rounds: readonly Round[]) => rounds.map(({ firstMs }) => firstMs)
      rows.push([
        `${kind}, ${clients}`,
        median(speeds(own)).toFixed(0),
        median(speeds(others)).toFixed(0),
        medianRatio(speeds(own), speeds(others)).toFixed(2),
        median(firsts(own)).toFixed(0),
        median(firsts(others)).toFixed(0),
        medianRatio(firsts(own), firsts(others)).toFixed(2),
      ])
    }
  }
  print(`### Chats through Lookout to vLLM, and to vLLM itself, ${title}

New prompts of ${PROMPT_WORDS} words (or a new image and a question), ${OUTPUT_TOKENS} tokens of JSON each, streamed; vLLM computes with ${THREADS} thread${THREADS === 1 ? '' : 's'}. Medians of ${repetitions(options)} rounds in turn.

${table(
  [
    'prompt, clients',
    'Lookout, tokens/s',
    'vLLM, tokens/s',
    'ratio',
    'Lookout, ms to first text',
    'vLLM, ms to first text',
    'ratio (below 1: Lookout is faster)',
  ],
  rows,
)}
`)
}

async function newChats(fresh: FreshText, kind: 'text' | 'image', count: number): Promise<Message[]> {
  const messages: Message[] = []
  for (let index = 0; index < count; index++) {
    const question = { type: 'text', text: `Write about the ${fresh.words(3)}.` } as const
    const content = kind === 'text' ? fresh.words(PROMPT_WORDS) : [await fresh.image(IMAGE), question]
    messages.push({ role: 'user', content })
  }
  return messages
}

async function round(server: BenchServer, messages: Message[], clients: number): Promise<Round> {
  const expected = OUTPUT_TOKENS * messages.length
  const firsts: number[] = []
  let tokens = 0
  const started = performance.now()
  const client = async () => {
    for (let message = messages.pop(); message !== undefined; message = messages.pop()) {
      const { firstMs, completionTokens } = await chat(server, [message], OUTPUT_TOKENS, LONG_REPLY)
      firsts.push(firstMs)
      tokens += completionTokens
    }
  }
  await Promise.all(Array.from({ length: clients }, client))
  if (tokens !== expected) throw new Error(`${server.name} generated ${tokens} tokens instead of ${expected}.`)
  return { tokensPerSecond: (tokens * 1000) / (performance.now() - started), firstMs: median(firsts) }
}

async function compareMultilook(
  lookout: BenchServer,
  direct: BenchServer,
  kind: 'text' | 'image',
  options: BenchOptions,
): Promise<string[]> {
  const fresh = new FreshText()
  const prompts = QUESTIONS.slice(0, PROMPTS)
  const own: CallResult[] = []
  const others: CallResult[] = []
  for (let run = -1; run < repetitions(options); run++) {
    const content = kind === 'text' ? fresh.words(1000) : [await fresh.image(IMAGE)]
    const ask = async (server: BenchServer) => {
      // What one has computed would help the other: vLLM keeps caches apart only between salts.
      if (server === lookout) return multilook(lookout, [{ role: 'user', content }], prompts, PROMPT_TOKENS)
      const conversations = prompts.map((prompt): Message[] => [
        { role: 'user', content },
        { role: 'user', content: prompt },
      ])
      return chatsAtOnce(direct, conversations, PROMPT_TOKENS)
    }
    for (const server of run % 2 === 0 ? [lookout, direct] : [direct, lookout]) {
      const result = await ask(server)
      if (run >= 0) (server === lookout ? own : others).push(result)
    }
  }
  const times = (results: readonly CallResult[]) => results.map(({ totalMs }) => totalMs)
  return [spread(times(own), 0), spread(times(others), 0), medianRatio(times(others), times(own)).toFixed(1)]
}
