/**
 * Vectors of texts, of BERTs of MiniLM's shape with random weights of several types: one call with many texts, and many calls with
 * one each.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { seededRandom } from '../src/doctor/random.ts'
import { loadCard } from '../src/models/card.ts'
import { writeGguf } from '../test/support/gguf-writer.ts'
import { tinyBert } from '../test/support/tiny-models/embedding.ts'
import type { TypeRule } from '../test/support/tiny-models/weights.ts'
import { type Benchmark, print } from './support/benchmark.ts'
import { post } from './support/chat.ts'
import { inTurn } from './support/in-turn.ts'
import type { BenchModel } from './support/models.ts'
import { requirePeer } from './support/peer-build.ts'
import { F16, Q8_0 } from './support/quantisations.ts'
import { type BenchServer, startLookout, startPeer } from './support/server.ts'
import { medianRatio, spread } from './support/statistics.ts'
import { table } from './support/table.ts'

const MINILM = { width: 384, layers: 6, heads: 12, feedForward: 1536 }
const TYPES: Readonly<Record<string, TypeRule>> = { F32: () => 'F32', F16, Q8_0 }
const TOKENS = 256
/** Texts, and words of each. */
const LOADS = [
  [1, 8],
  [64, 8],
  [64, 100],
] as const
const SLOTS = 8
/** A single text takes some ms, so a pause of the machine weighs more. */
const SHORT_ROUNDS = 8

type Ask = (server: BenchServer, texts: readonly string[]) => Promise<number>

const WAYS: Readonly<Record<string, Ask>> = {
  'one call': (server, texts) => timed(() => embed(server, texts)),
  'calls at once': (server, texts) => timed(() => Promise.all(texts.map((text) => embed(server, text)))),
}

export const embeddings: Benchmark = {
  summary: 'vectors of 1 and 64 texts, in one call and in many, against llama-server',
  withPeer: true,

  async run({ quick, repetitions, peerThreads }) {
    const rounds = repetitions ?? (quick ? 1 : 9)
    const threads = peerThreads ?? availableParallelism()
    const folder = await mkdtemp(join(tmpdir(), 'lookout-bench-embeddings-'))
    const rows: string[][] = []
    try {
      for (const type of Object.keys(TYPES)) {
        const model = await writeModel(folder, type, threads)
        await using lookout = await startLookout(model.cardFile, model.id)
        const options = { slots: SLOTS, threads, contextTokens: SLOTS * TOKENS, arguments: ['--embeddings'] }
        await using llamaServer = await startPeer(requirePeer(), model, options)
        for (const [count, words] of LOADS) {
          for (const [way, ask] of Object.entries(WAYS)) {
            const next = () => texts(count, words)
            const byLookout = (input: readonly string[]) => ask(lookout, input)
            const byPeer = (input: readonly string[]) => ask(llamaServer, input)
            await inTurn(1, next, byLookout, byPeer)
            const [own, others] = await inTurn(count === 1 ? SHORT_ROUNDS * rounds : rounds, next, byLookout, byPeer)
            const ratio = medianRatio(others, own).toFixed(2)
            rows.push([type, String(count), String(words), way, spread(own), spread(others), ratio])
          }
        }
      }
      print(`### Embeddings, MiniLM's shape with random weights, ${threads} threads

Medians (minimum to maximum) of ${rounds} repetitions in turn, and ${SHORT_ROUNDS} times as many for one text; llama-server has ${SLOTS} slots.

${table(['weights', 'texts', 'words each', 'asked', 'Lookout, ms', 'llama-server, ms', 'times faster'], rows)}`)
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  },
}

async function writeModel(folder: string, type: string, threads: number): Promise<BenchModel> {
  const [file, cardFile] = [join(folder, `${type}.gguf`), join(folder, `${type}.json`)]
  await writeGguf(file, tinyBert('mean', MINILM, TYPES[type]))
  const id = 'minilm-shape'
  const written = { serves: [{ id }], engine: { model: `${type}.gguf`, contextTokens: TOKENS } }
  await writeFile(cardFile, JSON.stringify(written))
  return {
    name: `MiniLM's shape with random weights of ${type}`,
    cardFile,
    card: await loadCard(cardFile),
    id,
    model: file,
    projector: null,
    takesImages: false,
    isSmall: true,
    threads,
  }
}

const random = seededRandom(1)

/** Words of letters that the tiny vocabulary has, one or two tokens each. */
function texts(count: number, words: number): readonly string[] {
  const letter = () => String.fromCharCode(97 + Math.floor(random() * 26))
  return Array.from({ length: count }, () => Array.from({ length: words }, () => letter() + letter()).join(' '))
}

async function embed(server: BenchServer, input: string | readonly string[]): Promise<void> {
  const response = await post(server, '/v1/embeddings', { model: server.model, input, encoding_format: 'base64' })
  await response.arrayBuffer()
}

/** llama-server's threads spin for some ms after a call, on the cores that the other side needs. */
const PAUSE_MS = 50

async function timed(run: () => Promise<unknown>): Promise<number> {
  await delay(PAUSE_MS)
  const started = performance.now()
  await run()
  return performance.now() - started
}
