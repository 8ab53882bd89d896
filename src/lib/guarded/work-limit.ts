import { readFileSync } from 'node:fs'

/** A clock tick of Linux, the unit of times in /proc. */
const TICK_MS = 10
/** Checks per limit. */
const CHECKS = 10
/** A process that gets no processor time may take this many times the limit. */
const PATIENCE = 5

/**
 * Calls `over` when a process has worked on a task for longer than a limit. Waiting does not count: neither time in
 * which this process was too busy to receive the result, nor, on Linux, time in which other processes had the
 * processor. After five times the limit it fires in any case. Disposing of the result says that the task has ended.
 */
export function limitWork(pid: number | undefined, limitMs: number, over: () => void): Disposable {
  const stepMs = limitMs / CHECKS
  const usedBefore = processorMs(pid)
  let isOver = false
  let waitedMs = 0
  let checked = performance.now()
  const timer = setInterval(() => {
    const now = performance.now()
    waitedMs += Math.min(now - checked, 2 * stepMs)
    checked = now
    if (waitedMs < limitMs) return
    const used = processorMs(pid)
    const workedMs = used === null || usedBefore === null ? waitedMs : used - usedBefore
    if (workedMs < limitMs && waitedMs < limitMs * PATIENCE) return
    clearInterval(timer)
    // The result may have arrived already. Let it be read first.
    setImmediate(() => {
      if (!isOver) over()
    })
  }, stepMs)
  return {
    [Symbol.dispose]() {
      isOver = true
      clearInterval(timer)
    },
  }
}

/** Processor time of all threads of a process; null when the process has ended or the system does not report it. */
function processorMs(pid: number | undefined): number | null {
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
