import type { ReplicaModel } from './replica.ts'

/**
 * What the simulation takes as given. Figures of our own are printed by `npm run bench -- front-end` and
 * `npm run bench -- accounts`, on an AMD EPYC. Those of others name their source.
 */

/**
 * A model of 8 billion parameters in bf16 on one H100 SXM under vLLM. A step of few sequences takes 6.5 ms: 128 tokens
 * for each of 8 take 833 ms in vLLM's own benchmark (buildkite.com/vllm/performance-benchmark/builds/9515, Llama 3.1 8B,
 * H200), and one sequence takes 6.48 ms per token on an H100 (yobitelcomm.github.io/bench, 2026-05-16). A step of 256
 * sequences takes 25.4 ms (vllm-project/vllm pull request 18566, median time between tokens; its GPU is not named).
 */
export const H100_8B: ReplicaModel = {
  stepMs: 6.5,
  /** What the 256 sequences leave when weights and KV cache are subtracted. */
  sequenceMs: 0.059,
  /** 36 layers, 8 KV heads of 128, bf16: 147,456 bytes at the 3.35 TB/s of the data sheet. */
  cachedTokenMs: 147_456 / 3.35e9,
  /** 16 GFLOP at half of the 989 TFLOP/s of the data sheet. Assumed: what a good kernel reaches. */
  promptTokenMs: 16 / (0.5 * 989),
  /** An encoder of 0.5 billion parameters over 3,072 patches, at the same rate, and as much again for its attention. */
  pictureMs: 12,
  maxSequences: 256,
  maxPromptTokens: 8192,
  /** 80 GB at 90 %, less 17 GB of weights and 5 GB of activations. */
  kvTokens: Math.floor(50e9 / 147_456),
}

/** One Lookout process. Processor times in ms, from the figures in docs/contributing/scale.md, rounded up. */
export const FRONT_END = {
  requestMs: 0.25,
  tokenMs: 0.02,
  /** Time of the API's process, on all its threads: body, base64, hash and pixels of a JPEG of 1024 x 768. */
  pictureMs: 7,
  /** Time of the decoders, and of encoding the pixels as PNG for an engine on another machine. */
  pictureElsewhereMs: 16 + 22,
  /** Share of the picture's time that the event loop is busy with; the rest is in threads. */
  eventLoopShare: 0.35,
  /** The load at which one is added: of one core, for the event loop. */
  target: 0.6,
} as const

export const BYTES = {
  /** A JPEG of 1024 x 768 as base64 within a request, and its pixels as PNG in base64, to the engine. */
  pictureIn: 300_000,
  pictureToEngine: 3_300_000,
  tokenOut: 233,
  responseHead: 1000,
  /** With its share of the indexes; assumed. */
  usageRow: 320,
} as const

/** Limits of the shared services, each on one machine. Orders of magnitude that are commonly reached; assumed. */
export const LIMITS = {
  databaseRowsPerSecond: 20_000,
  databaseReadsPerSecond: 20_000,
  /** Updates of one row, one after another, each a commit of 2 ms. */
  rowUpdatesPerSecond: 500,
  redisOperationsPerSecond: 100_000,
  gigabitsPerMachine: 25,
} as const

/** US dollars. */
export const PRICES = {
  /** H100 SXM at specialised clouds, on demand: 2.50 to 3.50 in May 2026 (mercatus-ai.com/blog/cloud-gpu-pricing). */
  gpuHour: 3,
  /** Assumed, about the list price of general machines. */
  coreHour: 0.05,
} as const
