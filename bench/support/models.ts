/**
 * The models of the benchmarks. None can end a reply, because the control tokens' rows of the output matrix are zero. A
 * greedy reply therefore always has the requested number of tokens, and both servers generate equally many.
 */
import { copyFile, mkdir, mkdtemp, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { usefulThreads } from '../../src/inference/local/native/compute.ts'
import { loadLocalCard, type ModelCard } from '../../src/models/card.ts'
import { cacheDirectory, LLAMA_RELEASE } from '../../src/setup/native-library.mjs'
import { fetchSource } from '../../src/setup/source.mjs'
import { readGguf, type Tensor, tensorBytes, writeGguf } from '../../test/support/gguf-writer.ts'
import { GEMMA, QWEN, type RealWeights, realWeights } from '../../test/support/real-weights.ts'
import { warn as tell } from './machine.ts'
import { findPeer, VOCABULARY } from './peer-build.ts'
import { RANDOM_MODELS, type RandomModel } from './random-models.ts'
import { arrayOf, CONTROL_TOKEN, readVocabulary } from './random-vocabulary.ts'

export interface BenchModel {
  readonly name: string
  readonly cardFile: string
  readonly card: ModelCard
  readonly id: string
  readonly model: string
  readonly projector: string | null
  readonly takesImages: boolean
  /** Whether a chat takes well under a second, so that many can be measured. */
  readonly isSmall: boolean
  /** Most threads that Lookout's engine uses for weights of this size. The peer gets as many. */
  readonly threads: number
}

export type BenchModelName = 'nano' | keyof typeof RANDOM_MODELS
export const MODEL_NAMES: readonly BenchModelName[] = [
  'nano',
  'half-billion',
  'gemma-270m',
  'six-hundred-million',
  'two-billion',
  'eight-billion',
  'experts',
]
/** Those that are measured unless others are asked for: the larger one takes hours on a few cores. */
export const USUAL_MODELS: readonly BenchModelName[] = ['nano', 'half-billion']

export const SHIPPED_CARD = fileURLToPath(new URL('../../models/lookout-nano/card.json', import.meta.url))
const PROJECT_ROOT = fileURLToPath(new URL('../..', import.meta.url))
/** Increase it when the models below change. */
const REVISION = 9
/** Context of models with random weights. By default it would depend on the machine's memory. */
const CONTEXT_TOKENS = 32_768

/** Published models of the same shapes. */
const REAL_WEIGHTS: Partial<Record<BenchModelName, RealWeights>> = { 'half-billion': QWEN, 'gemma-270m': GEMMA }

export async function prepareModel(name: BenchModelName): Promise<BenchModel> {
  const cardFile = name === 'nano' ? await endlessNano() : await random(name)
  return describe(cardFile, name === 'nano' ? 'shipped model' : RANDOM_MODELS[name].title, name === 'nano')
}

/** The published model of that shape where its weights can be had, which can end a reply; else as `prepareModel`. */
export async function realModel(name: BenchModelName): Promise<BenchModel> {
  const weights = REAL_WEIGHTS[name]
  try {
    if (weights !== undefined) return await describe(await realWeights(weights), weights.file.slice(0, -5), false)
  } catch (error) {
    tell(`${weights!.file} cannot be had, so the weights are random: ${(error as Error).message}`)
  }
  return prepareModel(name)
}

/** With the weights that it ships with, which can end a reply. */
export function shippedModel(): Promise<BenchModel> {
  return describe(SHIPPED_CARD, 'shipped model', true)
}

async function describe(cardFile: string, name: string, isSmall: boolean): Promise<BenchModel> {
  const card = await loadLocalCard(cardFile)
  const model = resolve(card.directory, card.engine.model)
  const projector = card.engine.projector === undefined ? null : resolve(card.directory, card.engine.projector)
  const bytes = (await stat(model)).size + (projector === null ? 0 : (await stat(projector)).size)
  return {
    name,
    cardFile,
    card,
    id: card.serves[0]!.id,
    model,
    projector,
    takesImages: card.image !== undefined,
    isSmall,
    threads: usefulThreads(bytes, availableParallelism(), 'tokensAtMost'),
  }
}

/** The shipped model with a changed output matrix. Rebuilt when the shipped files change. */
async function endlessNano(): Promise<string> {
  const card = await loadLocalCard(SHIPPED_CARD)
  const [source, projector] = [card.engine.model, card.engine.projector!].map((name) => join(card.directory, name))
  const { mtimeMs } = await stat(source!)
  return once(`nano-${REVISION}-${Math.round(mtimeMs)}`, async (folder) => {
    const shipped = JSON.parse(await readFile(SHIPPED_CARD, 'utf8')) as Record<string, unknown> & {
      readonly engine: object
    }
    // An older tree that this one is compared with may not know it, and says nothing of a model that cannot end a list.
    const { detection: _, ...written } = shipped
    // A reply that cannot end repeats itself, and drafts would look better than they are.
    await writeFile(
      join(folder, 'card.json'),
      JSON.stringify({ ...written, engine: { ...written.engine, speculation: false } }),
    )
    await copyFile(projector!, join(folder, card.engine.projector!))
    const { metadata, tensors } = await readGguf(source!)
    const embedding = tensors.find(({ name }) => name === 'token_embd.weight')!
    const output = tensors.find(({ name }) => name === 'output.weight') ?? embedding
    const data = Buffer.from(output.read())
    const rowBytes = tensorBytes({ type: output.type, shape: [output.shape[0]!] })
    const types = arrayOf(metadata, 'tokenizer.ggml.token_type')
    for (const [token, type] of types.entries()) {
      if (type === CONTROL_TOKEN) data.fill(0, token * rowBytes, (token + 1) * rowBytes)
    }
    const others = tensors.filter(({ name }) => name !== 'output.weight')
    const own: Tensor = { ...output, name: 'output.weight', read: () => data }
    await writeGguf(join(folder, card.engine.model), { metadata, tensors: [...others, own] })
  })
}

/** A model with random weights, whose card says as little as that of a model that a user adds. */
async function random(name: keyof typeof RANDOM_MODELS): Promise<string> {
  const model: RandomModel = RANDOM_MODELS[name]
  return once(`${name}-${REVISION}`, async (folder) => {
    const language = model.language(await readVocabulary(await findVocabulary(), model.vocabulary))
    const encoder = model.encoder?.()
    const engine = {
      model: `model-${model.quantisation}.gguf`,
      ...(encoder === undefined ? {} : { projector: 'mmproj.gguf' }),
      contextTokens: CONTEXT_TOKENS,
      // Random weights repeat themselves far more than trained ones, so that drafts would look better than they are.
      speculation: false,
    }
    const bytes = [language, encoder].flatMap((file) => file?.tensors ?? []).reduce((sum, t) => sum + tensorBytes(t), 0)
    tell(`Writing the model ${name} to ${dirname(folder)}: ${(bytes / 1e9).toFixed(1)} GB.`)
    await writeGguf(join(folder, engine.model), language)
    if (encoder !== undefined) await writeGguf(join(folder, engine.projector!), encoder)
    const card = { serves: [{ id: 'random' }], engine }
    await writeFile(join(folder, 'card.json'), `${JSON.stringify(card, null, 2)}\n`)
  })
}

/** The peer's file, or, where none is built, that of the source which it would be built from. */
async function findVocabulary(): Promise<string> {
  const make = async (folder: string) => {
    const source = await fetchSource(folder, PROJECT_ROOT, [`models/${VOCABULARY}`])
    await rename(join(source, 'models', VOCABULARY), join(folder, VOCABULARY))
    await rm(source, { recursive: true })
  }
  return findPeer()?.vocabulary ?? (await once(`vocabulary-${LLAMA_RELEASE}`, make, VOCABULARY))
}

/** Creates a folder in the cache atomically, unless it exists. Returns the path of its main file. */
async function once(name: string, make: (folder: string) => Promise<void>, file = 'card.json'): Promise<string> {
  const target = join(cacheDirectory(), 'bench', name)
  const made = join(target, file)
  if (await stat(made).catch(() => null)) return made
  await mkdir(dirname(target), { recursive: true })
  const folder = await mkdtemp(join(dirname(target), 'making-'))
  try {
    await make(folder)
    await rename(folder, target)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
  return made
}
