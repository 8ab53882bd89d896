import { createHash } from 'node:crypto'
import { resolve } from 'node:path'
import type { Backend } from '../../../config/backend.ts'
import { version } from '../../../lib/version.ts'
import type { LocalModelCard } from '../../../models/card.ts'
import { partsOf } from '../../../models/read/weight-files.ts'
import type { ModelInfo } from '../../contract/engine.ts'
import type { GpuSettings, WeightSizes } from '../../contract/offload.ts'
import type { EngineSettings, PrefixDiskSettings } from '../protocol.ts'
import type { CacheSettings } from './cache-sizes.ts'
import { describeModel, findModelFiles } from './model-files.ts'

/** What decides, beside the card, how a model is loaded. */
export interface LoadOptions extends CacheSettings {
  /** The prefix cache on disk; null for none. */
  readonly prefixDisk?: Omit<PrefixDiskSettings, 'model'> | null
  /** The backend; LOOKOUT_BACKEND by default. */
  readonly backend?: Backend
  /** Threads for encoding and decoding; the default depends on the weights that the CPU computes with. */
  readonly threads?: number
  /** Maximum requests in the queue. The card's number takes precedence. */
  readonly maxWaiting?: number
  /** Makes sampling reproducible, for tests. */
  readonly seed?: number
  readonly logger?: { warn(message: string): void }
}

const DEFAULT_MAX_WAITING = 128

/** What an engine process loads. */
export interface LoadSettings {
  readonly engine: EngineSettings
  readonly weightBytes: number
  /** What is read from the model's files here. The engine process reports the rest. */
  readonly headers: Pick<ModelInfo, 'chatTemplate' | 'templateTraits' | 'embeddingLength'>
}

/** @throws Error that says what is wrong with the model's files. */
export async function readSettings(card: LocalModelCard, options: LoadOptions): Promise<LoadSettings> {
  // This check reports problems of the files more clearly than llama.cpp does.
  const { info, caches, sizes, embedding, warnings } = await describeModel(card, options)
  for (const warning of warnings) options.logger?.warn(warning)
  const { model, projector } = await findModelFiles(card)
  const weightBytes = model.bytes + (projector?.bytes ?? 0)
  // If no served id takes media, the encoder may be one that the library does not support.
  const usesEncoder = card.serves.some(({ modalities }) => modalities.some((modality) => modality !== 'text'))
  const engine: EngineSettings = {
    model: model.path,
    modelParts: partsOf(model.path),
    projector: usesEncoder ? (projector?.path ?? null) : null,
    adapters: card.engine.adapters.map((adapter) => ({ ...adapter, path: resolve(card.directory, adapter.path) })),
    cells: card.engine.contextTokens,
    kvType: card.engine.kvType,
    maxSequences: card.engine.maxSequences,
    printedTokens: card.engine.printedTokens,
    repetition: card.engine.repetition,
    speculation: card.engine.speculation,
    image: imageLimits(card),
    ...(card.audio === undefined ? {} : { audio: card.audio }),
    ...(options.backend === undefined ? {} : { backend: options.backend }),
    threads: options.threads ?? card.engine.threads ?? null,
    gpu: gpuSettings(card, sizes),
    ...(embedding === undefined ? {} : { embedding }),
    ...caches,
    ...(options.prefixDisk && {
      prefixDisk: {
        ...options.prefixDisk,
        model: createHash('sha256').update(card.file).digest('hex').slice(0, 12),
      },
    }),
    maxWaiting: card.engine.queueLength ?? options.maxWaiting ?? DEFAULT_MAX_WAITING,
    seed: options.seed ?? null,
    origin: { version: await version(), chatTemplate: embedding?.prompt ?? info.chatTemplate },
  }
  const { chatTemplate, templateTraits, embeddingLength } = info
  return { engine, weightBytes, headers: { chatTemplate, templateTraits, embeddingLength } }
}

function gpuSettings({ engine: { gpu } }: LocalModelCard, weights: WeightSizes): GpuSettings {
  return {
    layers: gpu?.layers ?? 'auto',
    splitMode: gpu?.splitMode ?? 'layer',
    mainDevice: gpu?.mainDevice ?? 0,
    tensorSplit: gpu?.tensorSplit ?? null,
    devices: gpu?.devices ?? null,
    encoder: gpu?.encoder ?? true,
    weights,
  }
}

/** Limits that cover both images and frames: the library has only one pair of limits. */
function imageLimits({ image, video }: LocalModelCard): EngineSettings['image'] {
  if (image === undefined || video === undefined) return image ?? video ?? null
  return {
    pixelsPerToken: image.pixelsPerToken,
    minTokens: Math.min(image.minTokens, video.minTokens),
    maxTokens: Math.max(image.maxTokens, video.maxTokens),
  }
}
