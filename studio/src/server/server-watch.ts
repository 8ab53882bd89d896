import { signal } from '@preact/signals'

/** Whether the server answers: 'away' while it does not, 'back' for a moment after that. */
export const serverState = signal<'there' | 'away' | 'back'>('there')

const ASK_EVERY_MS = 1000
const BACK_SHOWN_MS = 5000

/** A proxy may hold a question to a server that is away. */
const ANSWERS_WITHIN_MS = 10_000

/** Ends when the server is back; null while it is there, as far as the page knows. */
let watching: Promise<void> | null = null

/** Asks whether the server answers. Where it does not, the page says so until it does. @throws DOMException `AbortError` */
export async function isServerThere(stop?: AbortSignal): Promise<boolean> {
  const isThere = await answers(stop)
  stop?.throwIfAborted()
  if (!isThere) {
    watching ??= untilBack().finally(() => {
      watching = null
    })
  }
  return isThere
}

/** Resolves when the server takes requests again. @throws DOMException `AbortError` */
export async function serverIsBack(stop: AbortSignal): Promise<void> {
  if (watching === null && (await isServerThere(stop))) return
  const back = watching
  await new Promise<void>((resolve, reject) => {
    const abort = () => reject(new DOMException('Aborted', 'AbortError'))
    if (stop.aborted) return abort()
    stop.addEventListener('abort', abort, { once: true })
    void Promise.resolve(back).then(() => {
      stop.removeEventListener('abort', abort)
      resolve()
    })
  })
}

async function untilBack(): Promise<void> {
  serverState.value = 'away'
  do await new Promise((resolve) => setTimeout(resolve, ASK_EVERY_MS))
  while (!(await answers()))
  serverState.value = 'back'
  setTimeout(() => {
    if (serverState.value === 'back') serverState.value = 'there'
  }, BACK_SHOWN_MS)
}

/** Not whether it is ready: what it refuses until then says when to ask again. */
function answers(stop?: AbortSignal): Promise<boolean> {
  const late = AbortSignal.timeout(ANSWERS_WITHIN_MS)
  const signal = stop ? AbortSignal.any([stop, late]) : late
  return fetch('/healthz', { cache: 'no-store', signal }).then(
    ({ ok }) => ok,
    () => false,
  )
}
