import type { BenchModelName } from './models.ts'

/** One of the benchmarks that `npm run bench` lists. */
export interface Benchmark {
  readonly summary: string
  /** Whether it compares with llama.cpp's own programs. */
  readonly withPeer: boolean
  /** Whether it can compare with another tree instead. */
  readonly comparesTrees?: boolean
  /** The models that it measures unless others are asked for, where they are not the usual ones. */
  readonly models?: readonly BenchModelName[]
  run(options: BenchOptions): Promise<void>
}

export interface BenchOptions {
  /** Fewer repetitions, for a quick look. */
  readonly quick: boolean
  /** Null for the benchmark's own number. */
  readonly repetitions: number | null
  readonly models: readonly BenchModelName[]
  /** Threads of llama-server in `throughput`, and of the peer in `gpu`; null for as many as Lookout takes for tokens. */
  readonly peerThreads: number | null
  /** The compiler's name of the processor that kernels, and the peer, are compiled for. */
  readonly processor: string
  /** Parallel compiler jobs for building the peer. */
  readonly jobs: number
  /** The folder of the data that a benchmark reads; null where none is named. */
  readonly data: string | null
  /** Another tree of Lookout, to be measured in the peer's place; null for none. */
  readonly against: string | null
  /** The most schemas or questions of that data; null for the benchmark's own number. */
  readonly limit: number | null
  /** A Python with the packages that a benchmark uses; null for none. */
  readonly python: string | null
  /** The parts of `gpu` that are measured; null for all. */
  readonly only: readonly string[] | null
  /** Whether `gpu` measures a machine without one. */
  readonly anyway: boolean
  /** A file for the figures of `gpu` as JSON; null for none. */
  readonly json: string | null
}

/** An invalid command line. */
export class UsageError extends Error {}

export function print(text: string): void {
  process.stdout.write(`${text}\n`)
}
