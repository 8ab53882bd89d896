/*
 * Two tabs that show one session would each overwrite what the other saves. Each holds a lock on its session while it is
 * open. Where the browser has no locks (plain HTTP from another machine), the tabs ask each other.
 */

let release = () => {}
/** What this tab holds, or is asking the others for, without locks. */
const own = new Set<string>()
const tabs = navigator.locks === undefined ? openChannel() : null
/** A tab that is there answers sooner, unless the machine is busy. */
const ANSWERS_WITHIN_MS = 500

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

/** Holds a session that no other tab can have, and no longer the one before. */
export async function holdNewSession(id: string): Promise<void> {
  if (navigator.locks === undefined) holdOnly(id)
  else await holdSession(id)
}

/** @returns null where the browser keeps nothing for the page: no session can be opened then. */
function openChannel(): BroadcastChannel | null {
  try {
    const channel = new BroadcastChannel('lookout-sessions')
    channel.addEventListener('message', ({ data: { wants } }) => {
      if (own.has(wants)) channel.postMessage({ has: wants })
    })
    return channel
  } catch {
    return null
  }
}

async function holdByAsking(id: string): Promise<boolean> {
  own.add(id)
  if (await isHeldElsewhere(id)) own.delete(id)
  else holdOnly(id)
  return own.has(id)
}

function isHeldElsewhere(id: string): Promise<boolean> {
  if (tabs === null) return Promise.resolve(false)
  const channel = tabs
  return new Promise((resolve) => {
    const listener = ({ data: { has } }: MessageEvent) => has === id && end(true)
    const end = (isHeld: boolean) => {
      channel.removeEventListener('message', listener)
      resolve(isHeld)
    }
    channel.addEventListener('message', listener)
    channel.postMessage({ wants: id })
    setTimeout(() => end(false), ANSWERS_WITHIN_MS)
  })
}

function holdOnly(id: string): void {
  own.clear()
  own.add(id)
}
