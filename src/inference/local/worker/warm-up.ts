import type { PromptPart, Work } from '../../engine.ts'
import { FailureError } from '../failure.ts'
import type { EngineSettings, FromEngine } from '../protocol.ts'
import type { BatchSplitter } from '../scheduler/batch-splitter.ts'
import type { LoadedModel } from '../scheduler/loaded-model.ts'
import { Scheduler } from '../scheduler/scheduler.ts'
import { calibrate } from './calibration.ts'

/** Samples in a second of audio. */
const SECOND = 16_000

export interface WarmUp {
  readonly splitter: BatchSplitter
  /** Duration of the longest step so far, or the expected duration of a full batch where that is longer. */
  readonly longestStepMs: number
}

/**
 * Measures step times, and runs encoder and decoder once, so that memory is allocated and pages are read before the first
 * request. Blocks.
 */
export function warmUp(loaded: LoadedModel, image: EngineSettings['image']): WarmUp {
  const parts: PromptPart[] = [{ type: 'text', text: 'Hello', trusted: false }]
  if (image !== null && loaded.info.modalities.image) {
    // The largest square that the card allows.
    const side = Math.floor(Math.sqrt(image.maxTokens)) * image.pixelsPerToken
    if (side * side >= image.minTokens * image.pixelsPerToken ** 2) {
      parts.unshift({ type: 'image', image: { width: side, height: side, data: new Uint8Array(side * side * 3) } })
    }
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
  const scheduler = new Scheduler(loaded, splitter, { maxWaiting: 1, prefixCacheCells: 0, seed: 0 }, fail)
  scheduler.submit(0, work)
  let longestStepMs = splitter.fullBatchMs
  let started = performance.now()
  while (scheduler.step()) {
    const now = performance.now()
    longestStepMs = Math.max(longestStepMs, now - started)
    started = now
  }
  return { splitter, longestStepMs }
}
