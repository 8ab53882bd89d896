/**
 * The settings that decide how much memory the processes take. `npm run bench -- memory-settings` leaves one of them
 * out at a time and prints the effect of each. The figures below are from a run on two quiet cores (AMD EPYC); those of
 * uploads and bodies are from a quick run beside other work, and show the order of magnitude.
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
 * Options of Node for a child process that makes much garbage and keeps little. V8 keeps the memory that it once needed
 * for young objects: the engine had 487 MiB after some minutes of chats and multilook, 521 without this limit.
 */
export const CHILD_OPTIONS: readonly string[] = uses('young-heap') ? ['--max-semi-space-size=8'] : []

/**
 * Environment of such a process. Blocks of some hundred KiB, such as images or saved prefixes of varying sizes, leave
 * holes in glibc's heap. From this size up they are mapped separately, and returned to the system when they are freed:
 * after some minutes of chats and multilook the engine had 487 MiB and the decoders 205; without this, 549 and 302.
 * Other C libraries ignore it.
 */
export const CHILD_ENVIRONMENT: Readonly<Record<string, string>> = {
  ...(uses('mapped-blocks') ? { MALLOC_MMAP_THRESHOLD_: String(128 * 1024) } : {}),
  ...(leftOut.size > 0 ? { [LEAVE_OUT]: [...leftOut].join() } : {}),
}

/** Free memory that such a process keeps instead of returning it to the system, in bytes. */
const KEPT_BYTES = 2 ** 30

/**
 * Environment of such a process that computes on a device. An image passes through some 100 MB of new blocks on its way
 * there. By default, each is mapped separately and returned: filling 32 MB takes 27 ms of processor time, but 3 ms in
 * memory that is kept, and 8 ms in new pages of 2 MiB. On a CPU, a KV cache in large pages would take more memory than
 * its cells.
 */
export const DEVICE_ENVIRONMENT: Readonly<Record<string, string>> = uses('large-pages')
  ? { GLIBC_TUNABLES: `glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=${KEPT_BYTES}` }
  : {}

/**
 * Options of Node for the process of the embedded database: 134 MiB when it has just started, 174 without this. V8's
 * optimizing compiler would make PostgreSQL's WebAssembly faster, and take both cores for minutes; the baseline
 * compiler is enough.
 */
export const DATABASE_OPTIONS: readonly string[] = uses('quick-wasm') ? ['--liftoff-only'] : []

/**
 * Environment of that process. Its threads need little memory from the C library, but glibc keeps some in an arena for
 * each of them: just after start, it had 127 MiB, and 134 without this.
 */
export const DATABASE_ENVIRONMENT: Readonly<Record<string, string>> = uses('one-arena') ? { MALLOC_ARENA_MAX: '1' } : {}

/**
 * How much the heap of a process that receives uploads may grow before a full collection, in percent of its live data.
 * By default V8 soon allows only a tenth, and counts pieces that are already garbage: an upload then causes a full
 * collection every 30 MB. Uploads of 127 MiB ran at 329 MiB/s, and at 249 without this.
 */
export function letHeapGrow(): void {
  if (uses('heap-growth')) setFlagsFromString('--heap-growing-percent=200')
}

/** Settings of `sharp` for a process that decodes one image at a time, and none twice. */
export function tuneImages(sharp: { cache(options: boolean): unknown; concurrency(threads: number): unknown }): void {
  if (uses('image-cache')) sharp.cache(false)
  if (uses('image-threads')) sharp.concurrency(1)
}

/**
 * Frees recent garbage, in half a millisecond. For streams: V8 accumulates their pieces until it collects the whole
 * heap, again and again, although all of them were short-lived. Uploads took 45 MiB at most, 80 without this, and ran
 * at 329 MiB/s instead of 268.
 */
export function collectYoungGarbage(): void {
  if (uses('stream-collection')) collector()({ type: 'minor' })
}

/**
 * Frees all garbage, in some milliseconds per ten megabytes of live data. For request bodies, which are large and
 * outside the heap: V8 lets them accumulate, because its own heap hardly grows with them. Sixteen concurrent bodies of
 * 19 MB took 350 MiB at most, 535 without this.
 */
export function collectAllGarbage(): void {
  if (uses('body-collection')) collector()({ type: 'major' })
}

/** Frees all garbage including its buffers: V8 frees these on a thread, for which the second collection waits. */
export function collectBuffers(): void {
  collectAllGarbage()
  collectYoungGarbage()
}

const LOOK_MS = 10_000
/** Using less than this fraction of one processor counts as idle. */
const IDLE_SHARE = 0.02

/**
 * Makes this process return the memory of its last work to the system after it has been idle for some seconds. V8 would
 * keep it: after start and 25 s without requests, a server had 537 MiB in all its processes, 706 without this.
 * @param firstMs required idle time before the first release after start. The first work after a release is slower:
 * with an early release in the main process, the first text of a new server would be delayed by some 40 ms.
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
 * Returns free memory of glibc's heaps to the system, in some milliseconds: after five requests and 25 s without any, a
 * server had 446 MiB in all its processes, 465 without this.
 */
function trim(): void {
  // A process that computes on a device keeps its memory: see `DEVICE_ENVIRONMENT`.
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
  /** Also drops caches, and returns all memory that is then free. */
  readonly flavor?: 'last-resort'
}

const collector = lazy(() => {
  // Only contexts created from now on have the function; the program's own context does not.
  setFlagsFromString('--expose-gc')
  return runInNewContext('gc') as (collection: Collection) => void
})
