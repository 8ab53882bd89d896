/** What ends a command, and the exit code that it then has. */
export const EXIT_CODES = { SIGINT: 130, SIGTERM: 143 } as const

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
  const listeners = Object.entries(EXIT_CODES).map(([name, exitCode]) => {
    const listener = () => {
      if (code !== 0) process.exit(exitCode)
      code = exitCode
      stop.abort()
    }
    process.on(name, listener)
    return [name, listener] as const
  })
  try {
    return await work(stop.signal)
  } catch (error) {
    if (code === 0) throw error
    partWith()
    return process.exit(code)
  } finally {
    for (const [name, listener] of listeners) process.off(name, listener)
  }
}
