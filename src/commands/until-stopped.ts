/** What ends a command, and the exit code that it then has. */
const EXIT_CODES = { SIGINT: 130, SIGTERM: 143 } as const

/** A terminal sends one Ctrl-C to a command, and npm hands the same one on to it. */
const SAME_PRESS_MS = 500

/**
 * Begins to end at the first signal. A second Ctrl-C ends the process at once.
 * @returns what stops listening.
 */
export function onStop(begin: (exitCode: number) => void): () => void {
  let begun: number | null = null
  const listeners = Object.entries(EXIT_CODES).map(([name, exitCode]) => {
    const listener = () => {
      if (begun !== null && performance.now() - begun > SAME_PRESS_MS) process.exit(exitCode)
      if (begun !== null) return
      begun = performance.now()
      begin(exitCode)
    }
    process.on(name, listener)
    return [name, listener] as const
  })
  return () => {
    for (const [name, listener] of listeners) process.off(name, listener)
  }
}

/**
 * Does work that Ctrl-C ends by its signal, and the process with it. A second Ctrl-C does not wait for the disk.
 * @param partWith what to say before.
 * @throws what the work throws by itself.
 */
export async function untilStopped<Result>(
  work: (signal: AbortSignal) => Promise<Result>,
  partWith: () => void = () => {},
): Promise<Result> {
  const stop = new AbortController()
  let code = 0
  const forget = onStop((exitCode) => {
    code = exitCode
    stop.abort()
  })
  try {
    return await work(stop.signal)
  } catch (error) {
    if (code === 0) throw error
    partWith()
    return process.exit(code)
  } finally {
    forget()
  }
}
