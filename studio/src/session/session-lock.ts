/*
 * Two tabs that show one session would each overwrite what the other saves. Each holds a lock on its session while it is
 * open; where the browser has no locks (plain HTTP from another machine), nothing is held.
 */

let release = () => {}

/**
 * Holds this session, and no longer the one before.
 * @param patience milliseconds to wait for another page: one that is just being closed still has it.
 * @returns false when another tab has it; the one before is still held then.
 */
export function holdSession(id: string, patience = 0): Promise<boolean> {
  if (navigator.locks === undefined) return Promise.resolve(true)
  return new Promise((resolve) => {
    const wanted = patience === 0 ? { ifAvailable: true } : { signal: AbortSignal.timeout(patience) }
    navigator.locks
      .request(`lookout-session-${id}`, wanted, (lock) => {
        if (lock === null) return resolve(false)
        release()
        resolve(true)
        return new Promise<void>((end) => {
          release = end
        })
      })
      .catch(() => resolve(false))
  })
}
