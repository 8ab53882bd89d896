import type { BenchModelName } from './models.ts'

/** One of the benchmarks that `npm run bench` lists. */
export interface Benchmark {
  readonly summary: string
  /** Whether it compares with llama.cpp's own programs. */
  readonly withPeer: boolean
  run(options: BenchOptions): Promise<void>
}

export interface BenchOptions {
  /** Fewer repetitions, for a quick look. */
  readonly quick: boolean
  /** Null for the benchmark's own number. */
  readonly repetitions: number | null
  readonly models: readonly BenchModelName[]
  /** Threads of llama-server in `throughput`; null for as many as Lookout takes for tokens. */
  readonly peerThreads: number | null
  /** The compiler's name of the processor that kernels, and the peer, are compiled for. */
  readonly processor: string
  /** Parallel compiler jobs for building the peer. */
  readonly jobs: number
  /** The folder of the data that a benchmark reads; null where none is named. */
  readonly data: string | null
  /** The most schemas or questions of that data; null for the benchmark's own number. */
  readonly limit: number | null
  /** A Python with the packages that a benchmark uses; null for none. */
  readonly python: string | null
}

/** An invalid command line. */
export class UsageError extends Error {}

export function print(text: string): void {
  process.stdout.write(`${text}\n`)
}
