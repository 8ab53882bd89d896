import { readFileSync } from 'node:fs'

/** Of a clock tick of Linux, which is what /proc counts in. */
const TICK_MS = 10
/** Looks at the time, for each limit. */
const LOOKS = 10
/** Times the limit that a process gets which does not get the processor. */
const PATIENCE = 5

/**
 * Fires when a process has worked on a task for longer than a limit. Time in which it had to wait is not its own: neither
 * that in which this process was too busy to hear from it, nor, where the system tells (Linux), that in which others had
 * the processor. Whatever it waits for, the limit fires after five times as long.
 */
export class WorkLimit implements Disposable {
  readonly #timer: NodeJS.Timeout
  #isOver = false

  constructor(pid: number | undefined, limitMs: number, over: () => void) {
    const stepMs = limitMs / LOOKS
    const usedBefore = processorMs(pid)
    let waitedMs = 0
    let looked = performance.now()
    this.#timer = setInterval(() => {
      const now = performance.now()
      waitedMs += Math.min(now - looked, 2 * stepMs)
      looked = now
      if (waitedMs < limitMs) return
      const used = processorMs(pid)
      const workedMs = used === null || usedBefore === null ? waitedMs : used - usedBefore
      if (workedMs < limitMs && waitedMs < limitMs * PATIENCE) return
      clearInterval(this.#timer)
      // Its answer may have come already: then it is read now.
      setImmediate(() => {
        if (!this.#isOver) over()
      })
    }, stepMs)
  }

  /** The task has ended. */
  [Symbol.dispose](): void {
    this.#isOver = true
    clearInterval(this.#timer)
  }
}

/** Processor time of a process, all its threads together; null where the system does not tell, or the process is gone. */
function processorMs(pid: number | undefined): number | null {
  if (process.platform !== 'linux' || pid === undefined) return null
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    // After the name, which may hold anything, utime and stime are the 12th and the 13th field.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return (Number(fields[11]) + Number(fields[12])) * TICK_MS
  } catch {
    return null
  }
}
