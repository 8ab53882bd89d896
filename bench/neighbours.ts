/** One chat beside processes that keep cores busy, with Lookout and with llama-server. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { type Benchmark, type BenchOptions, print } from './support/benchmark.ts'
import { chat, decodingSpeed } from './support/chat.ts'
import { prepareModel } from './support/models.ts'
import { requirePeer } from './support/peer-build.ts'
import { FreshText } from './support/prompts.ts'
import { type BenchServer, startLookout, startPeer } from './support/server.ts'
import { median, spread } from './support/statistics.ts'
import { table } from './support/table.ts'

const NEIGHBOURS = [0, 1, 2]
const PROMPT_WORDS = 20
const OUTPUT_TOKENS = 48
/** A server that a neighbour all but stops would take minutes for all tokens. */
const FEWER_TOKENS = 12
const BUSY = 'process.stdout.write("busy"); for (;;);'

export const neighbours: Benchmark = {
  summary: 'tokens per second of one chat beside processes that keep cores busy',
  withPeer: true,

  async run(options) {
    const peer = requirePeer()
    for (const name of options.models) {
      const model = await prepareModel(name)
      const shared = { slots: 4, threads: model.threads, contextTokens: model.card.engine.contextTokens }
      const rows: string[][] = []
      const speeds = new Map<string, number[]>()
      for (const count of NEIGHBOURS) {
        for (const which of ['Lookout', 'llama-server'] as const) {
          await using server =
            which === 'Lookout' ? await startLookout(model.cardFile, model.id) : await startPeer(peer, model, shared)
          const key = `${which} ${count}`
          speeds.set(key, await beside(count, server, options))
        }
        rows.push([
          `${count}`,
          ...(['Lookout', 'llama-server'] as const).flatMap((which) => {
            const now = speeds.get(`${which} ${count}`)!
            const alone = speeds.get(`${which} 0`)!
            return [spread(now), (median(now) / median(alone)).toFixed(2)]
          }),
          (median(speeds.get(`Lookout ${count}`)!) / median(speeds.get(`llama-server ${count}`)!)).toFixed(2),
        ])
      }
      print(`### One chat beside busy neighbours, ${model.name}, ${model.threads} thread${model.threads === 1 ? '' : 's'} each

A neighbour is a process that computes without a pause. Tokens per second after the first of ${OUTPUT_TOKENS} (of ${FEWER_TOKENS} beside neighbours), medians (minimum to maximum) of ${repetitions(options)}.

${table(
  ['neighbours', 'Lookout, tokens/s', 'to alone', 'llama-server, tokens/s', 'to alone', 'Lookout to llama-server'],
  rows,
)}`)
    }
  },
}

const repetitions = ({ quick, repetitions }: BenchOptions) => repetitions ?? (quick ? 1 : 5)

async function beside(count: number, server: BenchServer, options: BenchOptions): Promise<number[]> {
  const fresh = new FreshText()
  const tokens = count === 0 ? OUTPUT_TOKENS : FEWER_TOKENS
  await tokensPerSecond(server, fresh, OUTPUT_TOKENS)
  const busy = await Promise.all(Array.from({ length: count }, startBusy))
  try {
    const speeds: number[] = []
    for (let run = 0; run < repetitions(options); run++) speeds.push(await tokensPerSecond(server, fresh, tokens))
    return speeds
  } finally {
    for (const process of busy) process.kill('SIGKILL')
  }
}

async function tokensPerSecond(server: BenchServer, fresh: FreshText, tokens: number): Promise<number> {
  return decodingSpeed(await chat(server, [{ role: 'user', content: fresh.words(PROMPT_WORDS) }], tokens))
}

async function startBusy(): Promise<ChildProcess> {
  const child = spawn(process.execPath, ['-e', BUSY], { stdio: ['ignore', 'pipe', 'inherit'] })
  await once(child.stdout!, 'data')
  return child
}
