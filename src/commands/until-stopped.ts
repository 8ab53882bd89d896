/** Signals that end a command, with its exit code. */
const EXIT_CODES = { SIGINT: 130, SIGTERM: 143 } as const

/** A terminal sends one Ctrl-C to a command, and npm forwards the same one to it. */
const SAME_PRESS_MS = 500

/**
 * Begins to end at the first signal. A second Ctrl-C ends the process at once.
 * @returns a function that stops listening.
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
 * Runs work. Ctrl-C aborts its signal, and then ends the process. A second Ctrl-C does not wait for the disk.
 * @param partWith called before the process ends, to print a message.
 * @throws the work's own errors.
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
