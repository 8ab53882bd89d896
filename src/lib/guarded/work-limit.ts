import { readFileSync } from 'node:fs'
import type { Worker } from 'node:worker_threads'

/** A clock tick of Linux, the unit of times in /proc. */
const TICK_MS = 10
/** Checks per limit. */
const CHECKS = 10
/** A process or thread that gets no processor time may take this many times the limit. */
const PATIENCE = 5

/**
 * Calls `over` when a process or a thread has worked on a task for longer than a limit. Waiting does not count: neither time
 * in which this process was too busy to receive the result, nor, for threads and on Linux, time in which others had the
 * processor. After five times the limit it fires in any case. Disposing of the result says that the task has ended.
 */
export function limitWork(worker: Worker | number | undefined, limitMs: number, over: () => void): Disposable {
  const stepMs = limitMs / CHECKS
  // At the first check, so that what ends soon costs nothing.
  let usedBefore: Promise<number | null> | null = null
  let isOver = false
  let isAsking = false
  let waitedMs = 0
  let checked = performance.now()
  const end = () => {
    clearInterval(timer)
    // The result may have arrived already. Let it be read first.
    setImmediate(() => {
      if (isOver) return
      isOver = true
      over()
    })
  }
  const check = async (before: Promise<number | null>) => {
    const used = await Promise.all([processorMs(worker), before])
    const workedMs = used[0] === null || used[1] === null ? waitedMs : used[0] - used[1]
    if (workedMs >= limitMs) end()
  }
  const timer = setInterval(() => {
    usedBefore ??= processorMs(worker)
    const now = performance.now()
    waitedMs += Math.min(now - checked, 2 * stepMs)
    checked = now
    if (waitedMs >= limitMs * PATIENCE) end()
    else if (waitedMs >= limitMs && !isAsking) {
      isAsking = true
      void check(usedBefore).finally(() => {
        isAsking = false
      })
    }
  }, stepMs)
  return {
    [Symbol.dispose]() {
      isOver = true
      clearInterval(timer)
    },
  }
}

/** Processor time of a thread, or of all threads of a process; null when it has ended or the system does not report it. */
async function processorMs(worker: Worker | number | undefined): Promise<number | null> {
  if (typeof worker !== 'object') return processMs(worker)
  try {
    // Node.js 24.6 and later. It answers while the thread runs a loop.
    const { user, system } = await worker.cpuUsage()
    return (user + system) / 1000
  } catch {
    return null
  }
}

function processMs(pid: number | undefined): number | null {
  if (process.platform !== 'linux' || pid === undefined) return null
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    // The name may contain any character. After it, utime and stime are the 12th and 13th fields.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return (Number(fields[11]) + Number(fields[12])) * TICK_MS
  } catch {
    return null
  }
}
