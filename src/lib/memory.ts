import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

interface Collection {
  readonly type: 'minor' | 'major'
  /** Waits for nothing that might still be of use, and gives back all room that is free then. */
  readonly flavor?: 'last-resort'
}

// Contexts made from now on have the function; the program's own, which is older, has not.
setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as (collection: Collection) => void

/**
 * Options of a child process that makes much garbage of its work and keeps little. V8 keeps what it once needed for young
 * objects: left alone that is 64 MiB after minutes under load.
 */
export const YOUNG_HEAP_LIMIT: readonly string[] = ['--max-semi-space-size=8']

/**
 * Environment of such a process. Blocks of some hundred KiB, pictures or saved prefixes of which no two are of one size,
 * riddle glibc's heap with holes. From this size up they are mapped one by one, and go back to the system when they are
 * freed. Other C libraries take no notice.
 */
export const MAPPED_BLOCKS: Readonly<Record<string, string>> = { MALLOC_MMAP_THRESHOLD_: String(128 * 1024) }

const LOOK_MS = 10_000
/** Less of one processor than this is idle. */
const IDLE_SHARE = 0.02

/**
 * Frees what has become garbage lately, in half a millisecond. For streams: V8 lets the bytes of their pieces gather until
 * it collects the whole heap, time and again, though all of them died young. That took half of an upload's time.
 */
export function collectYoungGarbage(): void {
  collect({ type: 'minor' })
}

/**
 * Frees all that has become garbage, in some milliseconds for every ten megabytes that live. For what is large and
 * outside of the heap: V8 lets hundreds of megabytes of it gather, because its own heap hardly grows with them.
 */
export function collectAllGarbage(): void {
  collect({ type: 'major' })
}

/**
 * Has this process give the memory of its last work back to the system, once it has had next to nothing to do for some
 * seconds. V8 keeps it: a server that has started, or has been busy, stays 100 MiB and more larger than what it holds.
 */
export function releaseMemoryWhenIdle(): void {
  let busy = true
  let used = processorMs()
  const look = () => {
    const now = processorMs()
    if (now - used > LOOK_MS * IDLE_SHARE) busy = true
    else if (busy) {
      collect({ type: 'major', flavor: 'last-resort' })
      busy = false
    }
    used = processorMs()
  }
  setInterval(look, LOOK_MS).unref()
}

function processorMs(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}
