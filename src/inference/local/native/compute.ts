/**
 * What the scheduler and the worker assume about the hardware that computes the layers of a model. Each kind of hardware
 * has numbers of its own, with the reason. Those of devices follow from how GPUs work; docs/contributing/gpus.md has what
 * was measured.
 */
export interface Compute {
  /** Maximum rows per decode call, unless an image that must be decoded in one call has more. */
  readonly batchRows: number
  /**
   * From this many rows on, attention works on tiles of this many rows and computes every cell that any row of a tile
   * sees for all of them: fast for the rows of one prompt, a waste for next tokens of different sequences. Null where
   * they may go together in any number.
   */
  readonly tileRows: number | null
  /**
   * Whether all embeddings of an image go into one decode call, if it can take them. Other sequences wait for it, but several calls
   * interleaved with their next tokens would take far longer.
   */
  readonly wholeMedia: boolean
  /**
   * Whether the first step of a shape compiles device kernels, which takes seconds: its time says nothing about later ones.
   */
  readonly compilesAtFirst: boolean
  /** Whether recomputing a row may be about as fast as copying its keys and values to main memory. */
  readonly weighsCopies: boolean
  /**
   * Whether retained sequences stay in the KV cache for as long as that is expected to pay off, by the cost of a cell and the
   * fraction of sequences that are continued. Copies to main memory then wait for an idle moment. Otherwise, a sequence is copied
   * soon, and is evicted once it has cost as much as restoring it.
   */
  readonly keepsCells: boolean
  /**
   * Maximum retained sequences in the KV cache beside the running ones. For each, the library reserves a row of logits, in main
   * memory and on the device: 0.6 MB with 152,000 tokens.
   */
  readonly retainedSequences: number
  /** Whether the call that launches a step returns before it is computed, so that the CPU is free for other work. */
  readonly leavesCpu: boolean
  /** Minimum prompt rows per step: fewer would read weights and KV cache too often for what they compute. */
  readonly fewestPromptRows: { readonly alone: number; readonly inCompany: number }
  /**
   * The cost of a prompt row in a large batch is measured in a step of `calibrated` rows when the model is loaded, and later in
   * steps of at least `telling` rows: fewer take nearly as long, so their time says nothing about larger batches.
   */
  readonly promptRows: { readonly calibrated: number; readonly telling: number }
}

/**
 * On a CPU, larger batches prefill hardly faster and need more memory for activations and logits. It is also llama.cpp's
 * own default for every backend (`n_ubatch`).
 */
export const BATCH_ROWS = 512

/**
 * On a device: an image of 1,024 tokens, which most are, is one call instead of two, each of which costs the CPU some ms to
 * build and start. Text gains nothing by it: on an H200, prompts took as long in batches of 512 as of 2,048. Masks and
 * activations grow with the rows; those of 2,048 would take a gigabyte with a context of 131,072 tokens.
 */
export const DEVICE_BATCH_ROWS = 1024

/**
 * Our attention reads only the cells that a row attends to. From 5 to 10 rows on, a CPU is compute-bound, and the time of a step
 * grows with its rows.
 */
export const OWN_KERNELS: Compute = {
  batchRows: BATCH_ROWS,
  tileRows: null,
  wholeMedia: false,
  compilesAtFirst: false,
  weighsCopies: false,
  keepsCells: false,
  retainedSequences: 16,
  leavesCpu: false,
  fewestPromptRows: { alone: 16, inCompany: 8 },
  promptRows: { calibrated: 64, telling: 16 },
}

/**
 * ggml's attention on the CPU: 128 next tokens of the shipped model took 115 ms in batches of 63, and 260 in one. Our own
 * kernels took 61 and 38.
 */
const PREBUILT_KERNELS: Compute = { ...OWN_KERNELS, tileRows: 64 }

/**
 * Up to some hundred rows, a GPU is memory-bound: a step of 64 prompt rows takes hardly longer than one of a single row, so its
 * time per row would overestimate a large step several times. Its attention has no tiles that grow with the batch.
 *
 * A retained cell costs a GPU more than it costs a CPU, and so does a copy of it. Attention reads all cells below the last
 * one in use and masks those of other sequences: CUDA's kernels skip masked cells only at the end, and only in batches of
 * 1,024 rows. A cell of a model of 2 billion parameters has 112 KB, which an H100 reads in about 30 ns. Copying it takes 56
 * transfers per piece, through memory that is new to the process: 7 us at 16 GB/s, and as much again to restore it. Computing
 * it takes 44 us. So a copy of text hardly pays off. A cell may stay for some 1,500 steps if it will certainly be needed
 * again, and for 30 if the probability is 2%.
 *
 * A call with embeddings costs the CPU 6 ms, however few they are: on an H200, 64 took 6 ms and 1,024 took 29.
 */
const DEVICE: Compute = {
  batchRows: DEVICE_BATCH_ROWS,
  tileRows: null,
  wholeMedia: true,
  compilesAtFirst: true,
  weighsCopies: true,
  keepsCells: true,
  retainedSequences: 64,
  leavesCpu: true,
  fewestPromptRows: { alone: 64, inCompany: 64 },
  promptRows: { calibrated: BATCH_ROWS, telling: BATCH_ROWS / 2 },
}

/**
 * @param layers number of layers on devices; `ofLayers`: of the model.
 * @param hasKernels whether the kernels that set-up compiles are in use.
 */
export function computeOf(
  { layers, ofLayers }: { readonly layers: number; readonly ofLayers: number },
  hasKernels: boolean,
): Compute {
  if (layers > 0 && layers >= ofLayers) return DEVICE
  // If the CPU and a device share a model, the CPU's layers take most of the time.
  const ofCpu = hasKernels ? OWN_KERNELS : PREBUILT_KERNELS
  return { ...ofCpu, compilesAtFirst: layers > 0 }
}

/**
 * Bytes of weights per useful thread. The CPU's threads synchronise after every operation, and on a busy machine each barrier
 * waits for the operating system's scheduler.
 */
const BYTES_PER_THREAD = {
  /** At this size, one more thread is faster on every machine. */
  tokens: 32 * 2 ** 20,
  /**
   * At this size, one more thread is faster on some machines: with the shipped model, a second thread made next tokens 1.4
   * times as fast on an AMD EPYC with AVX2, and no faster on one with AVX-512. `ThreadCount` tries it.
   */
  tokensAtMost: 8 * 2 ** 20,
  /**
   * For products with some hundred rows, as in encoders. With the shipped model, a second thread made 1.2 times as many
   * images a second on an idle machine, and .9 times as many beside a busy program.
   */
  media: 2 * 2 ** 20,
}

/** Threads per row of logits if the CPU is free for sampling. More would only wait for memory. */
export function choosingThreads({ leavesCpu }: Compute, cores: number): number {
  return leavesCpu ? Math.max(1, Math.min(8, Math.floor(cores / 2))) : 1
}

/**
 * Number of threads that outweighs the cost of synchronisation. @param weightBytes bytes of weights that the CPU multiplies.
 */
export function usefulThreads(weightBytes: number, cores: number, work: keyof typeof BYTES_PER_THREAD): number {
  const bytesPerThread = BYTES_PER_THREAD[work]
  return Math.max(1, Math.min(cores, Math.ceil(weightBytes / bytesPerThread)))
}
