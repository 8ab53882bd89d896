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
/** Maximum time to prefill a prompt with media, in ms. A slower model stops after encoding: prefill would take a minute. */
const PROMPT_MS = 5000
const PROGRESS_MS = 1000

export interface WarmUp {
  readonly splitter: BatchSplitter
  /** Duration of the longest step so far, or the expected duration of a full batch where that is longer. */
  readonly longestStepMs: number
  /** Encoding time of the largest image, measured or estimated from above; 0 without an image encoder. */
  readonly longestEncodeMs: number
}

/**
 * Measures step times, and runs encoders and decoder once, so that memory is allocated and pages are read before the
 * first request. Blocks.
 * @param progressed called about once a second between steps, and before each encoder call: warm-up of a large model takes a
 * while, and a slow encoder must not look hung.
 */
export function warmUp(
  loaded: LoadedModel,
  { image, audio, adapters = [] }: Pick<EngineSettings, 'image' | 'audio' | 'adapters'>,
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
  // A card may omit audio that the encoder supports.
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
  const works = [...prompts.map((prefix) => workOf(prefix)), ...adapters.map(({ name }) => workOf([HELLO], name))]
  for (const [id, work] of works.entries()) {
    const { prefilledTokens } = scheduler.stats
    const begun = performance.now()
    scheduler.submit(id, work)
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
 * Duration of the longest encoder call, in ms: a tiled image takes one per tile.
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

function workOf(prefix: readonly PromptPart[], adapter?: string): Work {
  const sampling = { temperature: 1, topP: 1, topK: 0, frequencyPenalty: 0, presencePenalty: 0 }
  return {
    organisation: '',
    prefix,
    adapter,
    branches: [{ suffix: [{ type: 'text', text: ' world', trusted: false }], n: 2, maxTokens: 4, sampling }],
  }
}
