import type { ImagePart, PromptPart } from '../../contract/parts.ts'
import type { Work } from '../../contract/work.ts'
import { FailureError } from '../failure.ts'
import type { EngineSettings, FromEngine } from '../protocol.ts'
import type { BatchSplitter } from '../scheduler/batch/batch-splitter.ts'
import type { LoadedModel } from '../scheduler/loaded-model.ts'
import { Scheduler } from '../scheduler/scheduler.ts'
import { calibrate } from './calibration.ts'
import { measureEncoder } from './encoder-times.ts'

const HELLO: PromptPart = { type: 'text', text: 'Hello', trusted: false }
/** Samples in a second of audio. */
const SECOND = 16_000
/** A prompt that takes longer is left once its media are encoded: a slow model would prefill them for a minute; in ms. */
const PROMPT_MS = 5000
const PROGRESS_MS = 1000

export interface WarmUp {
  readonly splitter: BatchSplitter
  /** Duration of the longest step so far, or the expected duration of a full batch where that is longer. */
  readonly longestStepMs: number
  /** Duration of encoding the largest image, or what it is expected to take at most; 0 without an image encoder. */
  readonly longestEncodeMs: number
}

/**
 * Measures step times, and runs encoders and decoder once, so that memory is allocated and pages are read before the
 * first request. Blocks.
 * @param progressed called between steps about once a second, and before each call of an encoder: with a large model all of it takes a
 * while, and a slow encoder must not look hung.
 */
export function warmUp(
  loaded: LoadedModel,
  { image, audio }: Pick<EngineSettings, 'image' | 'audio'>,
  progressed: () => void = () => {},
): WarmUp {
  let lastProgress = performance.now()
  const progress = () => {
    if (performance.now() - lastProgress < PROGRESS_MS) return
    lastProgress = performance.now()
    progressed()
  }
  const splitter = calibrate(loaded, progress)
  const prompts: PromptPart[][] = [[HELLO]]
  // A card may leave out the audio that the encoder takes.
  if (loaded.info.modalities.audio && audio !== undefined) {
    prompts.push([{ type: 'audio', samples: new Float32Array(SECOND) }, HELLO])
  }
  let longestEncodeMs = 0
  if (image !== null && loaded.info.modalities.image) {
    const time = (picture: ImagePart) => {
      if (loaded.compute.compilesAtFirst) timeToEncode(loaded, picture, progressed)
      return timeToEncode(loaded, picture, progressed)
    }
    const encoder = measureEncoder(image, time)
    progressed()
    prompts.push([encoder.picture, HELLO])
    longestEncodeMs = encoder.longestMs
  }
  const fail = (message: FromEngine) => {
    if (message.type === 'error') throw new FailureError(message.error)
  }
  const scheduler = new Scheduler(
    loaded,
    splitter,
    { maxWaiting: 1, prefixCacheBytes: 0, speculation: false, seed: 0 },
    fail,
  )
  let longestStepMs = splitter.fullBatchMs
  for (const [id, prefix] of prompts.entries()) {
    const { prefilledTokens } = scheduler.stats
    const begun = performance.now()
    scheduler.submit(id, workOf(prefix))
    for (let started = begun; scheduler.step(); started = performance.now()) {
      const now = performance.now()
      longestStepMs = Math.max(longestStepMs, now - started)
      progress()
      if (now - begun > PROMPT_MS && scheduler.stats.prefilledTokens > prefilledTokens) scheduler.abort(id)
    }
  }
  return { splitter, longestStepMs, longestEncodeMs }
}

/**
 * Longest call of the encoder, in ms: where an image is cut into tiles, there is one for each.
 * @param calls called before each.
 */
function timeToEncode({ reader }: LoadedModel, picture: ImagePart, calls: () => void): number {
  const prompt = reader.read([picture], '', 'messages')
  try {
    return Math.max(
      ...prompt.chunks.map((chunk) => {
        if (chunk.type === 'text') return 0
        calls()
        const started = performance.now()
        chunk.encode()
        return performance.now() - started
      }),
    )
  } finally {
    prompt.close()
  }
}

function workOf(prefix: readonly PromptPart[]): Work {
  const sampling = { temperature: 1, topP: 1, topK: 0, frequencyPenalty: 0, presencePenalty: 0 }
  return {
    organisation: '',
    prefix,
    branches: [{ suffix: [{ type: 'text', text: ' world', trusted: false }], n: 2, maxTokens: 4, sampling }],
  }
}
