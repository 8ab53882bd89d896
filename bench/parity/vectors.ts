import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { loadCard } from '../../src/models/card.ts'
import { type WrittenFile, writeGguf } from '../../test/support/gguf-writer.ts'
import { tinyBert, tinyQwen3 } from '../../test/support/tiny-models/embedding.ts'
import { plainBert } from '../../test/support/tiny-models/plain-bert.ts'
import { post } from '../support/chat.ts'
import type { Peer } from '../support/peer-build.ts'
import { type BenchServer, startLookout, startPeer } from '../support/server.ts'
import { table } from '../support/table.ts'
import type { Report } from './report.ts'

/** The largest difference of numbers of a vector of length 1, and of scores, from what is exact. */
const TOLERANCE = 1e-4
/** The same from llama-server, which rounds more: it takes GELU from a table, and keeps sums of attention in 16 bits. */
const PEER_TOLERANCE = 5e-4
const CONTEXT = 256
/** With those that begin and end a text. */
const TOKENS = [
  [2, 8, 3],
  [2, 40, 7, 12, 55, 9, 31, 18, 3],
  [2, ...Array.from({ length: 60 }, (_, at) => 5 + ((at * 7) % 50)), 3],
]
const TEXTS = ['the robot', 'a', 'the bot, the robot. xyz', 'the robot . '.repeat(12)]
const QUERY = 'what is the robot'

interface Subject {
  readonly file: () => WrittenFile
  readonly inputs?: readonly (string | readonly number[])[]
  /** What a double-precision encoder makes of BERT's states. */
  readonly pool?: (states: readonly Float64Array[]) => Float64Array
}

const sumOfStates = (states: readonly Float64Array[]) =>
  states[0]!.map((_, at) => states.reduce((sum, state) => sum + state[at]!, 0))
const MODELS: Readonly<Record<string, Subject>> = {
  'BERT, mean': { file: () => tinyBert('mean'), inputs: TOKENS, pool: sumOfStates },
  'BERT, cls': { file: () => tinyBert('cls'), inputs: TOKENS, pool: (states) => states[0]! },
  'BERT, last': { file: () => tinyBert('last'), inputs: TOKENS, pool: (states) => states.at(-1)! },
  'BERT, rank': { file: () => tinyBert('rank') },
  'Qwen3, last': { file: () => tinyQwen3('last'), inputs: TEXTS },
  'Qwen3, rank': { file: () => tinyQwen3('rank') },
}

/** Compares vectors and scores of models with random weights, of each pooling, over HTTP. */
export async function checkVectors(folder: string, peer: Peer): Promise<Report> {
  const rows: string[][] = []
  let isSame = true
  for (const [at, [name, { file, inputs, pool }]] of Object.entries(MODELS).entries()) {
    process.stderr.write(`${name} ...\n`)
    const own = join(folder, `vectors-${at}`)
    await mkdir(own)
    const [model, cardFile, id] = [join(own, 'model.gguf'), join(own, 'card.json'), 'tiny'] as const
    await writeGguf(model, file())
    await writeFile(
      cardFile,
      JSON.stringify({ serves: [{ id }], engine: { model: 'model.gguf', contextTokens: CONTEXT } }),
    )
    const card = await loadCard(cardFile)
    const described = {
      name,
      id,
      cardFile,
      card,
      model,
      projector: null,
      takesImages: false,
      isSmall: true,
      threads: 2,
    }
    await using lookout = await startLookout(cardFile, id)
    await using llamaServer = await startPeer(peer, described, {
      slots: 1,
      threads: 2,
      contextTokens: CONTEXT,
      arguments: [inputs === undefined ? '--reranking' : '--embeddings'],
    })
    const numbers = (server: BenchServer) => (inputs === undefined ? scores(server) : vectors(server, inputs))
    const [ours, theirs] = [await numbers(lookout), await numbers(llamaServer)]
    // llama-server leaves a score of one class as the model gives it.
    const expected = name === 'BERT, rank' ? theirs.map((score) => 1 / (1 + Math.exp(-score))) : theirs
    const exact = pool && TOKENS.flatMap((tokens) => unit(pool(plainBert(file(), tokens))))
    const differences = [largest(ours, expected), exact && largest(ours, exact), exact && largest(expected, exact)]
    isSame &&= differences[0]! <= PEER_TOLERANCE && (differences[1] ?? 0) <= TOLERANCE
    rows.push([name, String(ours.length), ...differences.map((difference) => difference?.toExponential(1) ?? '')])
  }
  const headings = ['model', 'numbers', 'Lookout from llama-server', 'Lookout from exact', 'llama-server from exact']
  const notes = isSame
    ? []
    : [`**They differ**: by more than ${PEER_TOLERANCE}, or by ${TOLERANCE} from what is exact.`]
  return { table: table(headings, rows), notes, passed: isSame }
}

function largest(numbers: readonly number[], others: readonly number[]): number {
  if (numbers.length !== others.length) return Number.POSITIVE_INFINITY
  return Math.max(...numbers.map((number, index) => Math.abs(number - others[index]!)))
}

function unit(vector: Float64Array): number[] {
  const length = Math.hypot(...vector)
  return Array.from(vector, (value) => value / length)
}

async function vectors(server: BenchServer, input: Subject['inputs']): Promise<readonly number[]> {
  const response = await post(server, '/v1/embeddings', { model: server.model, input })
  const { data } = (await response.json()) as { data: { index: number; embedding: number[] }[] }
  return data.sort((one, other) => one.index - other.index).flatMap(({ embedding }) => embedding)
}

async function scores(server: BenchServer): Promise<readonly number[]> {
  const response = await post(server, '/v1/rerank', { model: server.model, query: QUERY, documents: TEXTS })
  const { results } = (await response.json()) as { results: { index: number; relevance_score: number }[] }
  return results.sort((one, other) => one.index - other.index).map(({ relevance_score: score }) => score)
}
