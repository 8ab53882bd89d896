import { readFile, stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import { CardError, type ModelCard } from '../../../models/card.ts'
import { GgufArray, type GgufValue, readGgufMetadata } from '../../../models/gguf.ts'
import type { ModelInfo } from '../../engine.ts'
import { type CacheSettings, type CacheSizes, cacheSizes } from './cache-sizes.ts'

/** What the headers of a model's files say. The model is not loaded. */
export interface ModelDescription {
  readonly info: ModelInfo
  /** Estimated memory of the loaded model, its caches included, in bytes. */
  readonly memoryBytes: number
  readonly caches: CacheSizes
}

export interface ModelFile {
  readonly path: string
  /** Size of all parts together, when the file is the first of several. */
  readonly bytes: number
}

export interface ModelFiles {
  readonly model: ModelFile
  readonly projector: ModelFile | null
}

/** Finds the files that a card names. @throws CardError for a missing file. */
export async function findModelFiles(card: ModelCard): Promise<ModelFiles> {
  const { model, projector } = card.engine
  return {
    model: await findFile(card, 'engine.model', model),
    projector: projector === undefined ? null : await findFile(card, 'engine.projector', projector),
  }
}

/**
 * Reads the card's own chat template, which replaces the one in the weights. @throws CardError when it cannot be read.
 */
export async function readChatTemplate(card: ModelCard): Promise<string | null> {
  const { chatTemplate } = card.engine
  if (chatTemplate === undefined) return null
  const path = resolve(card.directory, chatTemplate)
  return readFile(path, 'utf8').catch((error: Error) => {
    throw new CardError(card.file, 'engine.chatTemplate', `cannot read the file ${path}: ${error.message}`)
  })
}

/**
 * Reads the headers of a model's files.
 * @throws CardError for a missing file, a file of the wrong kind, or a card that claims more than the model can do.
 */
export async function describeModel(card: ModelCard, settings: CacheSettings = {}): Promise<ModelDescription> {
  const { model, projector } = await findModelFiles(card)
  const language = await readHeader(card, 'engine.model', model)
  const encoder = projector === null ? null : await readHeader(card, 'engine.projector', projector)
  const architecture = language.get('general.architecture')
  const number = (key: string): number | undefined => {
    const value = language.get(`${architecture}.${key}`)
    return typeof value === 'number' ? value : undefined
  }
  const trainedTokens = number('context_length')
  const tokens = language.get('tokenizer.ggml.tokens')
  if (trainedTokens === undefined || !(tokens instanceof GgufArray)) {
    throw new CardError(card.file, 'engine.model', `${model.path} is not a language model`)
  }
  const ownTemplate = language.get('tokenizer.chat_template')
  const info: ModelInfo = {
    contextTokens: Math.min(card.engine.contextTokens, trainedTokens),
    longestTokenBytes: Number.POSITIVE_INFINITY,
    vocabularySize: tokens.length,
    chatTemplate: (await readChatTemplate(card)) ?? (typeof ownTemplate === 'string' ? ownTemplate : null),
    bosToken: tokenText(language, tokens, 'bos'),
    eosToken: tokenText(language, tokens, 'eos'),
    modalities: {
      image: encoder?.get('clip.has_vision_encoder') === true,
      audio: encoder?.get('clip.has_audio_encoder') === true,
    },
  }
  checkPromises(card, info)
  const weights = model.bytes + (projector?.bytes ?? 0)
  const kvCache = kvBytes(card, language, number)
  const withoutCaches = weights + kvCache + scratchBytes(card, tokens.length) + PROCESS_BYTES
  const embedding = F32_BYTES * (number('embedding_length') ?? 0) * (1 + (number('n_deepstack_layers') ?? 0))
  const caches = cacheSizes(card, { kvCache, withoutCaches, embedding }, settings)
  return { info, memoryBytes: withoutCaches + caches.prefixCacheBytes + caches.encoderCacheBytes, caches }
}

/** @throws CardError when the card promises clients something that the model cannot do. */
export function checkPromises(card: ModelCard, info: ModelInfo): void {
  for (const [index, { maxContextTokens }] of card.serves.entries()) {
    if (maxContextTokens <= info.contextTokens) continue
    throw new CardError(
      card.file,
      `serves[${index}].maxContextTokens`,
      `promises ${maxContextTokens} context tokens, but the engine has ${info.contextTokens} (the lower of ` +
        "engine.contextTokens and the model's trained context)",
    )
  }
  if (card.image !== undefined && !info.modalities.image) {
    throw new CardError(card.file, 'image', "the card has image limits, but the model's files contain no image encoder")
  }
}

async function findFile(card: ModelCard, field: string, name: string): Promise<ModelFile> {
  const path = resolve(card.directory, name)
  let bytes = 0
  for (const part of partsOf(path)) {
    const found = await stat(part).catch(() => null)
    if (!found?.isFile()) throw new CardError(card.file, field, `the file ${part} does not exist`)
    bytes += found.size
  }
  return { path, bytes }
}

/** Large models are split into parts. The card names the first one: `name-00001-of-00003.gguf`. */
function partsOf(path: string): string[] {
  const numbered = /^(?<stem>.*)-00001-of-(?<count>\d{5})\.gguf$/s.exec(path)?.groups
  if (numbered === undefined) return [path]
  return Array.from(
    { length: Number(numbered.count) },
    (_, i) => `${numbered.stem}-${String(i + 1).padStart(5, '0')}-of-${numbered.count}.gguf`,
  )
}

async function readHeader(
  card: ModelCard,
  field: string,
  { path }: ModelFile,
): Promise<ReadonlyMap<string, GgufValue>> {
  return readGgufMetadata(path).catch((error: Error) => {
    throw new CardError(card.file, field, `cannot read ${path}: ${error.message}`)
  })
}

function tokenText(header: ReadonlyMap<string, GgufValue>, tokens: GgufArray, name: 'bos' | 'eos'): string {
  const id = header.get(`tokenizer.ggml.${name}_token_id`)
  const text = typeof id === 'number' ? tokens.at(id) : undefined
  return typeof text === 'string' ? text : ''
}

const F16_BYTES = 2
const F32_BYTES = 4
/** Node and llama.cpp's libraries in an engine process. */
const PROCESS_BYTES = 256 * 2 ** 20
/** Rows of the largest batch, as in `native/context.ts`. Each has a mask over all cells and its logits. */
const BATCH_ROWS = 512

/** Size of the KV cache: 16-bit keys and values of every layer, for every cell. */
function kvBytes(
  card: ModelCard,
  header: ReadonlyMap<string, GgufValue>,
  number: (key: string) => number | undefined,
): number {
  const layers = number('block_count') ?? 0
  const heads = number('attention.head_count') ?? 1
  const headSize = (number('embedding_length') ?? 0) / heads
  const perHead = (number('attention.key_length') ?? headSize) + (number('attention.value_length') ?? headSize)
  // One number for all layers, or an array with one for each.
  const kvHeads = header.get(`${header.get('general.architecture')}.attention.head_count_kv`) ?? heads
  let headsOfLayers = 0
  for (let layer = 0; layer < layers; layer++) {
    const count = kvHeads instanceof GgufArray ? kvHeads.at(layer) : kvHeads
    headsOfLayers += typeof count === 'number' ? count : heads
  }
  return card.engine.contextTokens * headsOfLayers * perHead * F16_BYTES
}

function scratchBytes(card: ModelCard, vocabularySize: number): number {
  return BATCH_ROWS * (card.engine.contextTokens + vocabularySize) * F32_BYTES
}
