import { signal } from '@preact/signals'

/** Whether the server answers: 'away' while it does not, 'back' for a moment after that. */
export const serverState = signal<'there' | 'away' | 'back'>('there')

const ASK_EVERY_MS = 1000
const BACK_SHOWN_MS = 5000

let watching: Promise<void> | null = null

/** Looks whether the server is there, and says so when it is not. */
export function watchServer(): void {
  watching ??= watch().finally(() => {
    watching = null
  })
}

/** Resolves when the server takes requests again. @throws DOMException `AbortError` */
export function serverIsBack(stop: AbortSignal): Promise<void> {
  watchServer()
  const back = watching!
  return new Promise((resolve, reject) => {
    const abort = () => reject(new DOMException('Aborted', 'AbortError'))
    if (stop.aborted) return abort()
    stop.addEventListener('abort', abort, { once: true })
    void back.then(() => {
      stop.removeEventListener('abort', abort)
      resolve()
    })
  })
}

async function watch(): Promise<void> {
  let wasAway = false
  while (!(await isThere())) {
    wasAway = true
    serverState.value = 'away'
    await new Promise((resolve) => setTimeout(resolve, ASK_EVERY_MS))
  }
  if (!wasAway) return
  serverState.value = 'back'
  setTimeout(() => {
    if (serverState.value === 'back') serverState.value = 'there'
  }, BACK_SHOWN_MS)
}

/** Not whether it is ready: what it refuses until then says when to ask again. */
function isThere(): Promise<boolean> {
  return fetch('/healthz', { cache: 'no-store' }).then(
    ({ ok }) => ok,
    () => false,
  )
}
