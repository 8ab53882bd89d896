import type { ImagePart, PromptPart, Work } from '../../engine.ts'
import { FailureError } from '../failure.ts'
import type { EngineSettings, FromEngine } from '../protocol.ts'
import type { BatchSplitter } from '../scheduler/batch-splitter.ts'
import type { LoadedModel } from '../scheduler/loaded-model.ts'
import { Scheduler } from '../scheduler/scheduler.ts'
import { calibrate } from './calibration.ts'
import { measureEncoder } from './encoder-times.ts'

/** Samples in a second of audio. */
const SECOND = 16_000

export interface WarmUp {
  readonly splitter: BatchSplitter
  /** Duration of the longest step so far, or the expected duration of a full batch where that is longer. */
  readonly longestStepMs: number
  /** Duration of encoding the largest image, or what it is expected to take at most; 0 without an image encoder. */
  readonly longestEncodeMs: number
}

/**
 * Measures step times, and runs encoder and decoder once, so that memory is allocated and pages are read before the first
 * request. Blocks.
 * @param goesOn called before each image: a slow encoder must not look hung.
 */
export function warmUp(loaded: LoadedModel, image: EngineSettings['image'], goesOn: () => void): WarmUp {
  const parts: PromptPart[] = [{ type: 'text', text: 'Hello', trusted: false }]
  let longestEncodeMs = 0
  if (image !== null && loaded.info.modalities.image) {
    const encoder = measureEncoder(image, (picture) => {
      goesOn()
      return timeToEncode(loaded, picture)
    })
    parts.unshift(encoder.picture)
    longestEncodeMs = encoder.longestMs
    goesOn()
  }
  if (loaded.info.modalities.audio) parts.unshift({ type: 'audio', samples: new Float32Array(SECOND) })
  const sampling = { temperature: 1, topP: 1, topK: 0, frequencyPenalty: 0, presencePenalty: 0 }
  const work: Work = {
    organisation: '',
    prefix: parts,
    branches: [{ suffix: [{ type: 'text', text: ' world', trusted: false }], n: 2, maxTokens: 4, sampling }],
  }
  const splitter = calibrate(loaded)
  const fail = (message: FromEngine) => {
    if (message.type === 'error') throw new FailureError(message.error)
  }
  const scheduler = new Scheduler(loaded, splitter, { maxWaiting: 1, prefixCacheBytes: 0, seed: 0 }, fail)
  scheduler.submit(0, work)
  let longestStepMs = splitter.fullBatchMs
  let started = performance.now()
  while (scheduler.step()) {
    const now = performance.now()
    longestStepMs = Math.max(longestStepMs, now - started)
    started = now
  }
  return { splitter, longestStepMs, longestEncodeMs }
}

/** Longest call of the encoder, in ms: where an image is cut into tiles, there is one for each. */
function timeToEncode({ reader }: LoadedModel, picture: ImagePart): number {
  const prompt = reader.read([picture], '', 'messages')
  try {
    return Math.max(
      ...prompt.chunks.map((chunk) => {
        const started = performance.now()
        if (chunk.type === 'media') chunk.encode()
        return performance.now() - started
      }),
    )
  } finally {
    prompt.close()
  }
}
