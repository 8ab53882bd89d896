/**
 * The settings that decide how much memory the processes take. `npm run bench -- memory-settings` leaves one of them out at
 * a time and prints what each buys. The figures below are from a run on two quiet cores (AMD EPYC); those of uploads and
 * bodies are from a quick run beside other work, and show the order of magnitude.
 *
 * Importing this module changes nothing. The entry point of a process calls the functions that it needs, and starts its
 * children with the options and the environment from here.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { lazy } from '../lazy.ts'
import { libc } from '../libc.ts'

/** Benchmarks name the settings to leave out here, comma-separated. */
export const LEAVE_OUT = 'BENCH_WITHOUT_MEMORY_SETTINGS'
const leftOut = new Set(process.env[LEAVE_OUT]?.split(','))

export type MemorySetting =
  | 'young-heap'
  | 'mapped-blocks'
  | 'idle-release'
  | 'idle-trim'
  | 'heap-growth'
  | 'stream-collection'
  | 'body-collection'
  | 'quick-wasm'
  | 'one-arena'
  | 'image-cache'
  | 'image-threads'
  | 'large-pages'

function uses(setting: MemorySetting): boolean {
  return !leftOut.has(setting)
}

/**
 * Options of Node for a child process that makes much garbage and keeps little. V8 keeps what it once needed for young
 * objects: the engine had 487 MiB after some minutes of chats and multilook, 521 without this limit.
 */
export const CHILD_OPTIONS: readonly string[] = uses('young-heap') ? ['--max-semi-space-size=8'] : []

/**
 * Environment of such a process. Blocks of some hundred KiB, images or saved prefixes of which no two have the same size,
 * leave holes in glibc's heap. From this size up they are mapped one by one, and go back to the system when they are freed:
 * after some minutes of chats and multilook the engine had 487 MiB and the decoders 205, 549 and 302 without this. Other C
 * libraries ignore it.
 */
export const CHILD_ENVIRONMENT: Readonly<Record<string, string>> = {
  ...(uses('mapped-blocks') ? { MALLOC_MMAP_THRESHOLD_: String(128 * 1024) } : {}),
  ...(leftOut.size > 0 ? { [LEAVE_OUT]: [...leftOut].join() } : {}),
}

/** Free memory that such a process keeps, instead of giving it back to the system. */
const KEPT_BYTES = 2 ** 30

/**
 * Environment of such a process that computes on a device. An image passes through some 100 MB of new blocks on its way
 * there. By default, each is mapped for itself and given back: to fill 32 MB takes 27 ms of a processor, 3 in memory that is kept,
 * and 8 in new pages of 2 MiB. On a CPU, a KV cache in large pages would take more memory than its cells do.
 */
export const DEVICE_ENVIRONMENT: Readonly<Record<string, string>> = uses('large-pages')
  ? { GLIBC_TUNABLES: `glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=${KEPT_BYTES}` }
  : {}

/**
 * Options of Node for the process of the embedded database: 134 MiB when it has just started, 174 without this. V8's
 * optimizing compiler would make PostgreSQL's WebAssembly faster, and take both cores for minutes; the quick one is enough.
 */
export const DATABASE_OPTIONS: readonly string[] = uses('quick-wasm') ? ['--liftoff-only'] : []

/**
 * Environment of that process. Its threads need little memory from the C library, and an arena of glibc's for each of them
 * keeps some: it had 127 MiB when it had just started, 134 without this.
 */
export const DATABASE_ENVIRONMENT: Readonly<Record<string, string>> = uses('one-arena') ? { MALLOC_ARENA_MAX: '1' } : {}

/**
 * How far the heap of a process that receives uploads may grow before all of it is collected, in percent of what lives in
 * it. By itself V8 soon allows a tenth, and counts the bytes of pieces that are dead already: an upload then causes a full
 * collection every 30 MB. Uploads of 127 MiB ran at 329 MiB/s, and at 249 without this.
 */
export function letHeapGrow(): void {
  if (uses('heap-growth')) setFlagsFromString('--heap-growing-percent=200')
}

/** What is set of `sharp` in a process that decodes one image at a time, and none twice. */
export function tuneImages(sharp: { cache(options: boolean): unknown; concurrency(threads: number): unknown }): void {
  if (uses('image-cache')) sharp.cache(false)
  if (uses('image-threads')) sharp.concurrency(1)
}

/**
 * Frees what has become garbage lately, in half a millisecond. For streams: V8 lets the bytes of their pieces gather until
 * it collects the whole heap, time and again, though all of them died young. Uploads took 45 MiB at most, 80 without this,
 * and ran at 329 MiB/s instead of 268.
 */
export function collectYoungGarbage(): void {
  if (uses('stream-collection')) collector()({ type: 'minor' })
}

/**
 * Frees all that has become garbage, in some milliseconds for every ten megabytes that live. For request bodies, which are
 * large and outside of the heap: V8 lets them gather, because its own heap hardly grows with them. Bodies of 19 MB, sixteen
 * at a time, took 350 MiB at most, 535 without this.
 */
export function collectAllGarbage(): void {
  if (uses('body-collection')) collector()({ type: 'major' })
}

/** Frees all garbage with its buffers: V8 leaves these to a thread, for which the second collection waits. */
export function collectBuffers(): void {
  collectAllGarbage()
  collectYoungGarbage()
}

const LOOK_MS = 10_000
/** Less of one processor than this is idle. */
const IDLE_SHARE = 0.02

/**
 * Makes this process give the memory of its last work back to the system once it has been idle for some seconds. V8 would
 * keep it: a server that had started and rested for 25 s had 537 MiB in all its processes, 706 without this.
 * @param firstMs how long it must be idle the first time, after its start. The first work after that is slower: if the main
 * process did it soon, the first text of a new server would be some 40 ms later.
 */
export function releaseMemoryWhenIdle(firstMs = LOOK_MS): void {
  if (!uses('idle-release')) return
  let busy = true
  let used = processorMs()
  let waited = firstMs
  const look = () => {
    const now = processorMs()
    if (now - used > waited * IDLE_SHARE) busy = true
    else if (busy) {
      collector()({ type: 'major', flavor: 'last-resort' })
      if (uses('idle-trim')) trim()
      busy = false
      waited = LOOK_MS
    }
    used = processorMs()
    setTimeout(look, waited).unref()
  }
  setTimeout(look, waited).unref()
}

/**
 * Gives what is free in the heaps of glibc back to the system, in some milliseconds: a server that had answered five requests
 * and rested for 25 s had 446 MiB in all its processes, 465 without this.
 */
function trim(): void {
  // A process that computes on a device keeps it: see `DEVICE_ENVIRONMENT`.
  if (process.platform !== 'linux' || process.env.GLIBC_TUNABLES?.includes('trim_threshold')) return
  try {
    libc().library.func('malloc_trim', 'int', ['size_t'])(0)
  } catch {
    // Not glibc.
  }
}

function processorMs(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

interface Collection {
  readonly type: 'minor' | 'major'
  /** Waits for nothing that might still be of use, and gives back all room that is free then. */
  readonly flavor?: 'last-resort'
}

const collector = lazy(() => {
  // Contexts made from then on have the function; the program's own, which is older, has not.
  setFlagsFromString('--expose-gc')
  return runInNewContext('gc') as (collection: Collection) => void
})
