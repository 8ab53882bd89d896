import { signal } from '@preact/signals'

/** A request that the page sent, with what came back: what the request drawer shows. */
export interface Exchange {
  readonly id: number
  readonly method: string
  readonly path: string
  /** The JSON body. Media in it is written as data URLs. */
  readonly body: unknown
  readonly status: number | null
  /** The whole response; of a stream, its events so far. */
  readonly response: unknown
  /** From sending to the end of the response. */
  readonly milliseconds: number | null
}

/** Enough to look back; bodies with pictures take megabytes. */
const KEPT = 8

/** The latest requests, newest first. */
export const exchanges = signal<readonly Exchange[]>([])

let count = 0

/** Notes a request that is being sent. @returns a function that notes what came back. */
export function noteExchange(method: string, path: string, body: unknown) {
  const id = ++count
  const started = performance.now()
  exchanges.value = [
    { id, method, path, body, status: null, response: null, milliseconds: null },
    ...exchanges.value.slice(0, KEPT - 1),
  ]
  return (status: number, response: unknown) => {
    const milliseconds = performance.now() - started
    exchanges.value = exchanges.value.map((one) => (one.id === id ? { ...one, status, response, milliseconds } : one))
  }
}
