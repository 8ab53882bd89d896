/*
 * Two tabs that show one session would each overwrite what the other saves. Each holds a lock on its session while it is
 * open. Where the browser has no locks (plain HTTP from another machine), the tabs ask each other.
 */

let release = () => {}
/** What this tab holds, or is asking the others for, without locks. */
const own = new Set<string>()
const tabs = new BroadcastChannel('lookout-sessions')
tabs.addEventListener('message', ({ data: { wants } }) => {
  if (own.has(wants)) tabs.postMessage({ has: wants })
})
/** A tab that is there answers sooner. */
const ANSWERS_WITHIN_MS = 200

/**
 * Holds this session, and no longer the one before.
 * @param patience milliseconds to wait for another page: one that is just being closed still has it.
 * @returns false when another tab has it; the one before is still held then.
 */
export function holdSession(id: string, patience = 0): Promise<boolean> {
  if (navigator.locks === undefined) return holdByAsking(id)
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

async function holdByAsking(id: string): Promise<boolean> {
  own.add(id)
  const isHeld = await new Promise<boolean>((resolve) => {
    const listener = ({ data: { has } }: MessageEvent) => has === id && end(true)
    const end = (outcome: boolean) => {
      tabs.removeEventListener('message', listener)
      resolve(outcome)
    }
    tabs.addEventListener('message', listener)
    tabs.postMessage({ wants: id })
    setTimeout(() => end(false), ANSWERS_WITHIN_MS)
  })
  if (isHeld) own.delete(id)
  else for (const other of own) if (other !== id) own.delete(other)
  return !isHeld
}
