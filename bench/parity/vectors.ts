import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { loadCard } from '../../src/models/card.ts'
import { type WrittenFile, writeGguf } from '../../test/support/gguf-writer.ts'
import { tinyBert, tinyQwen3 } from '../../test/support/tiny-models/embedding.ts'
import { post } from '../support/chat.ts'
import type { Peer } from '../support/peer-build.ts'
import { type BenchServer, startLookout, startPeer } from '../support/server.ts'
import { table } from '../support/table.ts'
import type { Report } from './report.ts'

/** The largest difference of numbers of a vector of length 1, and of scores. */
const TOLERANCE = 1e-4
const TOKENS = 256
const TEXTS = ['the robot', 'a', 'the bot, the robot. xyz', 'the robot . '.repeat(12)]
const QUERY = 'what is the robot'

const MODELS: Readonly<Record<string, () => WrittenFile>> = {
  'BERT, mean': () => tinyBert('mean'),
  'BERT, cls': () => tinyBert('cls'),
  'BERT, last': () => tinyBert('last'),
  'BERT, rank': () => tinyBert('rank'),
  'Qwen3, last': () => tinyQwen3('last'),
  'Qwen3, rank': () => tinyQwen3('rank'),
}

/** Compares vectors and scores of models with random weights, of each pooling, over HTTP. */
export async function checkVectors(folder: string, peer: Peer): Promise<Report> {
  const rows: string[][] = []
  for (const [at, [name, file]] of Object.entries(MODELS).entries()) {
    process.stderr.write(`${name} ...\n`)
    const own = join(folder, `vectors-${at}`)
    await mkdir(own)
    const [model, cardFile, id] = [join(own, 'model.gguf'), join(own, 'card.json'), 'tiny'] as const
    await writeGguf(model, file())
    await writeFile(
      cardFile,
      JSON.stringify({ serves: [{ id }], engine: { model: 'model.gguf', contextTokens: TOKENS } }),
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
    const ranks = name.endsWith('rank')
    await using lookout = await startLookout(cardFile, id)
    await using llamaServer = await startPeer(peer, described, {
      slots: 1,
      threads: 2,
      contextTokens: TOKENS,
      arguments: ranks ? ['--reranking'] : ['--embeddings'],
    })
    const numbers = ranks ? scores : vectors
    const [ours, theirs] = [await numbers(lookout), await numbers(llamaServer)]
    // llama-server leaves a score of one class as the model gives it.
    const expected = name === 'BERT, rank' ? theirs.map((score) => 1 / (1 + Math.exp(-score))) : theirs
    const largest = Math.max(...ours.map((number, index) => Math.abs(number - expected[index]!)))
    const isSame = ours.length === expected.length && largest <= TOLERANCE
    rows.push([name, String(ours.length), isSame ? largest.toExponential(0) : `**differs** by ${largest}`])
  }
  const passed = rows.every(([, , difference]) => !difference!.startsWith('*'))
  return { table: table(['model', 'numbers', 'largest difference'], rows), notes: [], passed }
}

async function vectors(server: BenchServer): Promise<readonly number[]> {
  const response = await post(server, '/v1/embeddings', { model: server.model, input: TEXTS })
  const { data } = (await response.json()) as { data: { index: number; embedding: number[] }[] }
  return data.sort((one, other) => one.index - other.index).flatMap(({ embedding }) => embedding)
}

async function scores(server: BenchServer): Promise<readonly number[]> {
  const response = await post(server, '/v1/rerank', { model: server.model, query: QUERY, documents: TEXTS })
  const { results } = (await response.json()) as { results: { index: number; relevance_score: number }[] }
  return results.sort((one, other) => one.index - other.index).map(({ relevance_score: score }) => score)
}
