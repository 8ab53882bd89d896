import { signal } from '@preact/signals'
import { withMediaRefs } from '../media/known-media.ts'

/** A request that the page sent, with what came back: what the request drawer shows. */
export interface Exchange {
  readonly id: number
  readonly sentAt: Date
  readonly method: string
  readonly path: string
  /** What the request asks the response to be; null where it does not say. */
  readonly accept: string | null
  /** The JSON body, with `MediaRef` in place of the page's media. */
  readonly body: unknown
  /** Null until the response begins; 0 when none did. */
  readonly status: number | null
  /** The whole response; of a stream, its events so far. */
  readonly response: unknown
  readonly isStream: boolean
  /** From sending to the end of the response. */
  readonly milliseconds: number | null
}

type Outcome = Pick<Exchange, 'status' | 'response'> & { readonly isStream?: boolean }

/** Enough to look back. */
const KEPT = 12

/** The latest requests, newest first. */
export const exchanges = signal<readonly Exchange[]>([])

let count = 0

/** Notes a request that is being sent. @returns a function that notes what came back. */
export function noteExchange(request: Pick<Exchange, 'method' | 'path' | 'accept' | 'body'>) {
  const id = ++count
  const started = performance.now()
  const noted: Exchange = {
    ...request,
    id,
    body: withMediaRefs(request.body),
    sentAt: new Date(),
    status: null,
    response: null,
    isStream: false,
    milliseconds: null,
  }
  exchanges.value = [noted, ...exchanges.value.slice(0, KEPT - 1)]
  return (outcome: Outcome) => {
    const milliseconds = performance.now() - started
    exchanges.value = exchanges.value.map((one) => (one.id === id ? { ...one, ...outcome, milliseconds } : one))
  }
}
