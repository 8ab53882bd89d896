/**
 * Figures of an idle server and of a single request: start-up time, resident memory of all processes, time to the first
 * text about a 256 x 256 image, and decoding speed. Linux only (reads /proc).
 */
import { setTimeout as delay } from 'node:timers/promises'
import { type Benchmark, print } from './support/benchmark.ts'
import { chat, decodingSpeed } from './support/chat.ts'
import { proportionalBytes, residentByProgram } from './support/process-tree.ts'
import { FreshText } from './support/prompts.ts'
import { startLookout } from './support/server.ts'
import { median } from './support/statistics.ts'
import { table } from './support/table.ts'

const MODEL = 'service-mk1.5'
const MAX_TOKENS = 256
/** After this time all processes have released unused memory (`src/lib/guarded/memory.ts`). */
const REST_MS = 25_000

export const firstLight: Benchmark = {
  summary: 'an idle server and one request at a time: start-up, memory, time to the first text, decoding speed',
  withPeer: false,

  async run({ quick, repetitions }) {
    const runs = repetitions ?? (quick ? 5 : 20)
    await using server = await startLookout(null, MODEL)
    await delay(2000)
    const started = await Memory.of(server.pid)
    const fresh = new FreshText()
    const first: number[] = []
    const speed: number[] = []
    for (let run = 0; run < runs; run++) {
      // A new image each time, so that nothing is cached.
      const content = [await fresh.image(), { type: 'text', text: 'Detect all objects.' } as const]
      const result = await chat(server, [{ role: 'user', content }], MAX_TOKENS)
      first.push(result.firstMs)
      if (result.completionTokens > 1) speed.push(decodingSpeed(result))
    }
    const used = await Memory.of(server.pid)
    await delay(REST_MS)
    const rested = await Memory.of(server.pid)
    print(`### First light, shipped model

${table(
  ['', 'figure'],
  [
    ['start to ready', `${server.readyMs.toFixed(0)} ms`],
    ['resident memory after start-up', started.total],
    [`resident memory after ${runs} requests`, used.total],
    [`resident memory after ${REST_MS / 1000} s idle`, rested.total],
    ['time to the first text, first request', `${first[0]!.toFixed(0)} ms`],
    [`time to the first text, median of ${runs}`, `${median(first).toFixed(0)} ms`],
    ['decoding speed, median', speed.length > 0 ? `${median(speed).toFixed(0)} tokens/s` : 'replies too short'],
  ],
)}

Memory of each process, MiB. The last column counts a page that several processes share once.

${table(
  ['', ...rested.programs, 'all', 'all, shared pages once'],
  [
    ['after start-up', ...started.columns(rested.programs)],
    [`after ${runs} requests`, ...used.columns(rested.programs)],
    [`after ${REST_MS / 1000} s idle`, ...rested.columns(rested.programs)],
  ],
)}`)
  },
}

/** What the processes of a server take at one time. */
class Memory {
  readonly #resident: ReadonlyMap<string, number>
  readonly #proportional: number

  private constructor(resident: ReadonlyMap<string, number>, proportional: number) {
    this.#resident = resident
    this.#proportional = proportional
  }

  static async of(pid: number): Promise<Memory> {
    return new Memory(await residentByProgram(pid), await proportionalBytes(pid))
  }

  get total(): string {
    return `${mib(this.#sum)} MiB`
  }

  /** @returns a column for each program, and two for all of them. */
  columns(programs: readonly string[]): string[] {
    return [...programs.map((program) => this.#resident.get(program) ?? 0), this.#sum, this.#proportional].map(mib)
  }

  get programs(): string[] {
    return [...this.#resident.keys()]
  }

  get #sum(): number {
    return [...this.#resident.values()].reduce((total, bytes) => total + bytes, 0)
  }
}

function mib(bytes: number): string {
  return (bytes / 2 ** 20).toFixed(0)
}
