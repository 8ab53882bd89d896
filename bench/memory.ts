/**
 * Resident memory under load: 100 concurrent chats, and multilook calls of 64 completions one after another, for ten
 * minutes. Prints the memory of each process over time. Linux only (reads /proc).
 */
import { setTimeout as delay } from 'node:timers/promises'
import { type Benchmark, print } from './support/benchmark.ts'
import { chat, post } from './support/chat.ts'
import { residentByProgram } from './support/process-tree.ts'
import { FreshText, QUESTIONS } from './support/prompts.ts'
import { type BenchServer, startLookout } from './support/server.ts'
import { table } from './support/table.ts'

const MODEL = 'service-mk1.5'
const CHATS = 100
const PROMPTS = 16
const COMPLETIONS_PER_PROMPT = 4
const OUTPUT_TOKENS = 48
const SAMPLES = 20

export const memory: Benchmark = {
  summary:
    '100 concurrent chats and multilook calls of 64 completions for 10 minutes (--repetitions N: minutes): resident memory',
  withPeer: false,

  async run({ quick, repetitions }) {
    const minutes = repetitions ?? (quick ? 1 : 10)
    await using server = await startLookout(null, MODEL)
    await delay(2000)
    const samples = [await residentByProgram(server.pid)]
    const end = performance.now() + minutes * 60_000
    const load = new Load(server, () => performance.now() < end)
    const working = load.run()
    for (let sample = 0; sample < SAMPLES; sample++) {
      await Promise.race([delay((minutes * 60_000) / SAMPLES), working])
      samples.push(await residentByProgram(server.pid))
    }
    await working
    const programs = [...samples.at(-1)!.keys()]
    const mib = (bytes: number | undefined) => (bytes === undefined ? '' : (bytes / 2 ** 20).toFixed(0))
    const rows = samples.map((bytes, index) => [
      ((index * minutes) / SAMPLES).toFixed(1),
      ...programs.map((program) => mib(bytes.get(program))),
    ])
    const half = samples[SAMPLES / 2]!
    const grown = programs.map((program) => {
      const bytes = samples.at(-1)!.get(program)! - (half.get(program) ?? 0)
      return `${program} ${bytes < 0 ? '-' : '+'}${mib(Math.abs(bytes))} MiB`
    })
    print(`### Memory under load, shipped model

${load.chats} chats of ${OUTPUT_TOKENS} tokens, ${CHATS} at a time, every other one about a new image, and ${load.calls} multilook calls of ${PROMPTS} prompts with ${COMPLETIONS_PER_PROMPT} completions each; ${load.failures} failed. Resident memory, MiB.

${table(['minute', ...programs], rows)}

In the second half: ${grown.join(', ')}.`)
  },
}

/** Chats at once, beside multilook calls one after the other. */
export class Load {
  readonly #server: BenchServer
  readonly #shouldContinue: () => boolean
  readonly #fresh = new FreshText()
  chats = 0
  calls = 0
  failures = 0

  constructor(server: BenchServer, shouldContinue: () => boolean) {
    this.#server = server
    this.#shouldContinue = shouldContinue
  }

  async run(): Promise<void> {
    const clients = Array.from({ length: CHATS }, (_, index) => this.#repeat(() => this.#chat(index)))
    await Promise.all([...clients, this.#repeat(() => this.#multilook())])
  }

  async #repeat(work: () => Promise<void>): Promise<void> {
    while (this.#shouldContinue()) {
      try {
        await work()
      } catch {
        this.failures++
        await delay(100)
      }
    }
  }

  async #chat(index: number): Promise<void> {
    const text = { type: 'text', text: this.#fresh.words(60) } as const
    const content = index % 2 === 0 ? [await this.#fresh.image(), text] : [text]
    await chat(this.#server, [{ role: 'user', content }], OUTPUT_TOKENS)
    this.chats++
  }

  async #multilook(): Promise<void> {
    const response = await post(this.#server, '/v1/chat/completions/multilook', {
      model: this.#server.model,
      context: [{ role: 'user', content: [await this.#fresh.image()] }],
      prompts: QUESTIONS.slice(0, PROMPTS),
      n: COMPLETIONS_PER_PROMPT,
      temperature: 1,
      max_completion_tokens: OUTPUT_TOKENS,
    })
    await response.json()
    this.calls++
  }
}
