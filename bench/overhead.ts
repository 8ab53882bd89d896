/**
 * The API's cost without the engine: one client sends requests to the whole service, which runs in a separate process
 * with an engine that answers at once. The same client's requests to a bare Node server show the share of the client
 * and the kernel. Work without output tokens measures the round trip to the real engine's process.
 */
import { fileURLToPath } from 'node:url'
import { GREEDY } from '../src/inference/contract/greedy.ts'
import type { PromptPart } from '../src/inference/contract/parts.ts'
import type { Branch } from '../src/inference/contract/work.ts'
import { LocalEngine } from '../src/inference/local/host/local-engine.ts'
import { loadCard } from '../src/models/card.ts'
import { type Benchmark, print } from './support/benchmark.ts'
import { chat, chatsAtOnce, type Message, multilook } from './support/chat.ts'
import { FreshText, QUESTIONS } from './support/prompts.ts'
import { startLookout } from './support/server.ts'
import { table } from './support/table.ts'

const MODEL = 'service-mk1.5'
const MANY_TOKENS = 512
/** Enough for both sides' code to be compiled. */
const WARM_UP_CALLS = 200
const SHIPPED = fileURLToPath(new URL('../models/lookout-nano/card.json', import.meta.url))
const NO_TOKENS: Branch = {
  suffix: [],
  n: 1,
  maxTokens: 0,
  sampling: GREEDY,
}
const program = (name: string) => fileURLToPath(new URL(`support/${name}`, import.meta.url))

export const overhead: Benchmark = {
  summary: 'the cost of the API without the engine: milliseconds per request and per token',
  withPeer: false,

  async run({ quick, repetitions }) {
    const runs = repetitions ?? (quick ? 50 : 300)
    const rows: string[][] = []
    const fresh = new FreshText()
    const row = async (label: string, runs: number, call: () => Promise<number>) => {
      for (let i = 0; i < Math.min(WARM_UP_CALLS, runs); i++) await call()
      const times: number[] = []
      for (let i = 0; i < runs; i++) times.push(await call())
      times.sort((a, b) => a - b)
      rows.push([label, ...[0.5, 0.99].map((share) => times[Math.floor((times.length - 1) * share)]!.toFixed(3))])
    }

    {
      await using bare = await startLookout(null, MODEL, { program: program('bare-server.ts') })
      const message = { role: 'user', content: 'Hello' } as const
      await row('the same client and a bare `node:http` server, text', runs, async () => {
        return (await chatsAtOnce(bare, [[message]], 1)).totalMs
      })
    }
    {
      await using service = await startLookout(null, MODEL, { program: program('silent-service.ts') })
      const answer = async (messages: readonly Message[]) => (await chatsAtOnce(service, [messages], 1)).totalMs
      await row('chat, a short text', runs, () => answer([{ role: 'user', content: 'Hello' }]))
      const long = fresh.words(1010)
      await row('chat, 1,024 tokens of text', runs, () => answer([{ role: 'user', content: long }]))
      const images = await Promise.all(Array.from({ length: 20 }, () => fresh.image()))
      let next = 0
      const content = () => [images[next++ % images.length]!, { type: 'text', text: QUESTIONS[0]! } as const]
      await row('chat, an image of 256 x 256 pixels (PNG)', runs, () => answer([{ role: 'user', content: content() }]))
      const prompts = QUESTIONS.slice(0, 16)
      await row('multilook, 16 prompts over 1,024 tokens of text', runs, async () => {
        return (await multilook(service, [{ role: 'user', content: long }], prompts, 1)).totalMs
      })
      const perToken = async (ask: (tokens: number) => Promise<number>) => {
        const one = await ask(1)
        return ((await ask(MANY_TOKENS)) - one) / (MANY_TOKENS - 1)
      }
      const hello: Message[] = [{ role: 'user', content: 'Hello' }]
      await row('each further token, streamed', Math.ceil(runs / 10), () =>
        perToken(async (tokens) => (await chat(service, hello, tokens)).totalMs),
      )
      await row('each further token, not streamed', Math.ceil(runs / 10), () =>
        perToken(async (tokens) => (await chatsAtOnce(service, [hello], tokens)).totalMs),
      )
    }
    const engine = await LocalEngine.start(await loadCard(SHIPPED))
    try {
      const organisation = 'bench'
      const { signal } = new AbortController()
      const send = async (part: PromptPart) => {
        const started = performance.now()
        await engine.generate({ organisation, prefix: [part, hello], branches: [NO_TOKENS] }, signal)
        return performance.now() - started
      }
      const hello: PromptPart = { type: 'text', text: 'Hello', trusted: false }
      const image = { width: 256, height: 256, data: new Uint8Array(256 * 256 * 3) }
      await row("round trip to the engine's process, a short text", runs, () => send(hello))
      await row("round trip to the engine's process, the pixels of an image", runs, () =>
        send({ type: 'image', image }),
      )
    } finally {
      await engine.close()
    }
    print(`### Overhead of the API

One client sends one request at a time to a service whose engine answers at once; ${runs} requests per row. The times run from the client's call to its parsed response and include the client's own work.

${table(['', 'median, ms', '99th percentile, ms'], rows)}`)
  },
}
