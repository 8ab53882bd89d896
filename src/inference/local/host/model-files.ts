import { basename } from 'node:path'
import { RATES_BY_PROBABILITY } from '../../../families/embedding-models.ts'
import { encoders, type GgufMetadata, mismatch, soundProblem } from '../../../families/gguf.ts'
import { architectureDoubt, architectureProblem, EMBEDDING_ARCHITECTURES } from '../../../families/llama-cpp-names.ts'
import { CardError, type LocalModelCard, localCard, type ModelCard } from '../../../models/card.ts'
import { builtInWarning, chooseTemplate, traitsOf } from '../../../models/derive/chosen-template.ts'
import { kvCostOf, kvTypeProblem } from '../../../models/derive/kv-cost.ts'
import { GgufArray } from '../../../models/read/gguf-value.ts'
import { modelHeaders } from '../../../models/read/model-headers.ts'
import { readAdapterProblem } from '../../../models/read/model-reader.ts'
import { quantisation } from '../../../models/read/quantisation.ts'
import { findWeights, type ModelFile, partsOf } from '../../../models/read/weight-files.ts'
import { checkFiles } from '../../contract/card-checks.ts'
import type { ModelInfo } from '../../contract/engine.ts'
import type { WeightSizes } from '../../contract/offload.ts'
import { BATCH_ROWS } from '../native/compute.ts'
import type { EmbeddingSettings } from '../protocol.ts'
import { type CacheSettings, type CacheSizes, cacheSizes } from './cache-sizes.ts'

/** Properties of a model, read from the headers of its files without loading it. */
export interface ModelDescription {
  readonly info: ModelInfo
  /** Estimated memory of the loaded model, its caches included, in bytes. */
  readonly memoryBytes: number
  readonly caches: CacheSizes
  /** Sizes of its parts. */
  readonly sizes: WeightSizes
  /** Size of its files. */
  readonly fileBytes: number
  /** Quantisation of its weights, e.g. `Q4_K_M`; null if the file does not name it. */
  readonly quantisation: string | null
  /** Set for a model that makes embeddings or scores. */
  readonly embedding?: EmbeddingSettings
  /** Warnings for the operator, one line each. */
  readonly warnings: readonly string[]
}

export interface ModelFiles {
  readonly model: ModelFile
  readonly projector: ModelFile | null
}

/** Finds the files that a card names. @throws CardError for a missing file. */
export async function findModelFiles(card: ModelCard): Promise<ModelFiles> {
  const { model, projector } = localCard(card).engine
  return {
    model: await findWeights(card, 'engine.model', model),
    projector: projector === undefined ? null : await findWeights(card, 'engine.projector', projector),
  }
}

/**
 * Reads the headers of a model's files.
 * @throws CardError for a missing file, a file of the wrong kind, or a card that claims more than the model can do.
 */
export async function describeModel(given: ModelCard, settings: CacheSettings = {}): Promise<ModelDescription> {
  const card = localCard(given)
  const { model, projector } = await findModelFiles(card)
  /** @param message names files by their paths; for clients, by their base names. */
  const refusal = (field: string, message: (name: (path: string) => string) => string) =>
    new CardError(card.file, `engine.${field}`, message(String), { told: message((path) => basename(path)) })
  const headers = modelHeaders(card.engine, card)
  const language = await headers.language()
  const encoder = await headers.encoder()
  const architecture = language.get('general.architecture')
  const number = (key: string): number | undefined => {
    const value = language.get(`${architecture}.${key}`)
    return typeof value === 'number' ? value : undefined
  }
  const trainedTokens = number('context_length')
  const tokens = language.get('tokenizer.ggml.tokens')
  if (trainedTokens === undefined || !(tokens instanceof GgufArray)) {
    throw refusal('model', (name) => `${name(model.path)} is not a language model`)
  }
  const unused = architectureProblem(String(architecture))
  if (unused !== null) {
    throw refusal(
      'model',
      (name) => `${name(model.path)} cannot be served: its architecture '${architecture}' ${unused}`,
    )
  }
  const writes = card.embedding === undefined
  const { pooling, prompt, instruction } = card.embedding ?? {}
  if (writes && EMBEDDING_ARCHITECTURES.includes(String(architecture))) {
    throw refusal('model', (name) => `${name(model.path)} makes embeddings: the card must not say that it does more`)
  }
  const template = writes ? await chooseTemplate(card.engine.chatTemplate, language, card) : null
  const info: ModelInfo = {
    contextTokens: Math.min(card.engine.contextTokens, trainedTokens),
    longestTokenBytes: Number.POSITIVE_INFINITY,
    chatTemplate: template?.source ?? null,
    ...(template === null ? {} : { templateTraits: await traitsOf(template, card) }),
    bosToken: tokenText(language, tokens, 'bos'),
    eosToken: tokenText(language, tokens, 'eos'),
    modalities: encoders(encoder),
    embeddingLength: number('embedding_length'),
    ...(writes
      ? {}
      : { embedding: { dimensions: number('embedding_length_out') ?? number('embedding_length') ?? null } }),
  }
  checkFiles(card, info)
  const problem = mismatch({ language, encoder })
  if (problem !== null) {
    throw refusal('projector', (name) => `${name(projector!.path)} does not belong to ${name(model.path)}: ${problem}`)
  }
  const unstorable = kvTypeProblem(language, card.engine.kvType)
  if (unstorable !== null) {
    throw refusal('kvType', (name) => `${name(model.path)} does not allow ${card.engine.kvType}: ${unstorable}`)
  }
  const hears = card.serves.some(({ modalities }) => modalities.includes('audio'))
  const unheard = hears ? soundProblem(encoder) : null
  if (unheard !== null) {
    throw refusal('projector', (name) => `${name(projector!.path)} cannot be used for sound: ${unheard}`)
  }
  let adapterBytes = 0
  for (const [at, { path }] of card.engine.adapters.entries()) {
    const field = `adapters[${at}].path`
    const adapter = await findWeights(card, `engine.${field}`, path)
    const unfit = await readAdapterProblem(adapter.path, partsOf(model.path))
    if (unfit !== null) throw refusal(field, (name) => `${name(adapter.path)} ${unfit}`)
    adapterBytes += adapter.bytes
  }
  const weights = model.bytes + (projector?.bytes ?? 0)
  const { perCell, perSequence } = kvCostOf(language, card.engine.kvType, card)
  const kvCache = card.engine.contextTokens * perCell
  const states = card.engine.maxSequences * perSequence
  const scratch = writes ? scratchBytes(card, tokens.length) : embeddingScratch(info.contextTokens, number)
  const withoutCaches = weights + adapterBytes + kvCache + states + scratch + PROCESS_BYTES
  const embedding = F32_BYTES * (number('embedding_length') ?? 0) * (1 + (number('n_deepstack_layers') ?? 0))
  const caches = cacheSizes(card, { kvCache, withoutCaches, embedding }, settings)
  const warning = template !== null && card.engine.chatTemplate === undefined ? builtInWarning(template) : null
  const doubt = architectureDoubt(String(architecture))
  return {
    info,
    memoryBytes: withoutCaches + caches.prefixCacheBytes + caches.encoderCacheBytes,
    caches,
    sizes: {
      width: number('embedding_length') ?? 0,
      layers: number('block_count') ?? 0,
      modelBytes: model.bytes,
      encoderBytes: projector?.bytes ?? 0,
      kvBytes: kvCache + states,
      scratchBytes: scratch,
    },
    fileBytes: weights,
    quantisation: quantisation(language),
    ...(pooling === undefined
      ? {}
      : {
          embedding: {
            ...{ pooling, prompt, instruction },
            ratesByProbability: RATES_BY_PROBABILITY.includes(String(architecture)),
          },
        }),
    warnings: [
      ...(doubt === null ? [] : [`Model card ${card.file}: the architecture '${architecture}' ${doubt}`]),
      ...(warning === null ? [] : [`Model card ${card.file}: ${warning}`]),
    ],
  }
}

function tokenText(header: GgufMetadata, tokens: GgufArray, name: 'bos' | 'eos'): string {
  const id = header.get(`tokenizer.ggml.${name}_token_id`)
  const text = typeof id === 'number' ? tokens.at(id) : undefined
  return typeof text === 'string' ? text : ''
}

const F32_BYTES = 4
/** Memory of Node and llama.cpp's libraries in an engine process. */
const PROCESS_BYTES = 256 * 2 ** 20
/** Each row of the largest batch has a mask over all cells and its logits. */
function scratchBytes(card: LocalModelCard, vocabularySize: number): number {
  return BATCH_ROWS * (card.engine.contextTokens + vocabularySize) * F32_BYTES
}

/** Intermediate results of the longest text in one call, and its mask. */
function embeddingScratch(rows: number, number: (key: string) => number | undefined): number {
  const floats = 8 * (number('embedding_length') ?? 0) + 2 * (number('feed_forward_length') ?? 0)
  return rows * (rows + floats) * F32_BYTES
}
