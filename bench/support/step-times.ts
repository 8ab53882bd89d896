/**
 * Has the engine's process note when its steps begin and end. Loaded before every program of a server under measurement,
 * through NODE_OPTIONS, it changes that process alone. It wraps functions that exist; where one has gone, its part is 0.
 */
import { appendFileSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { isMainThread } from 'node:worker_threads'

/** Names the file that the times are appended to. */
const VARIABLE = 'BENCH_STEPS'
const FLUSH_MS = 100

/** One native call for text. Times are in ms since the Unix epoch. */
export interface StepTime {
  readonly rows: number
  readonly started: number
  readonly ended: number
  /** Time that choosing the tokens of the step took, in ms. */
  choosingMs: number
}

/** The environment in which a program's engine writes its steps to the file. */
export function stepEnvironment(file: string): Record<string, string> {
  const options = [process.env.NODE_OPTIONS, `--import=${import.meta.url}`].filter(Boolean).join(' ')
  return { NODE_OPTIONS: options, [VARIABLE]: file }
}

export function readSteps(file: string): StepTime[] {
  const lines = readFileSync(file, 'utf8').trim().split('\n')
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as StepTime)
}

/** On the clock of all processes. */
export const now = () => performance.timeOrigin + performance.now()

type Method = (this: object, ...args: unknown[]) => unknown

/** Calls `around` with the method's call, in its place. */
function wrap(
  type: { readonly prototype: object },
  name: string,
  around: (self: object, call: () => unknown) => unknown,
) {
  const methods = type.prototype as Record<string, Method>
  const method = methods[name]
  if (typeof method !== 'function') return
  methods[name] = function (...args) {
    return around(this, () => method.apply(this, args))
  }
}

async function noteSteps(file: string): Promise<void> {
  const inference = new URL('../../src/inference/local/', import.meta.url)
  const { Context } = await import(new URL('native/context.ts', inference).href)
  const { Sequence } = await import(new URL('scheduler/sequence.ts', inference).href)
  let steps: StepTime[] = []
  let begun: { readonly rows: number; readonly started: number } | null = null
  wrap(Context, 'launchBatch', (self, call) => {
    const rows = (self as { batch: { length: number } }).batch.length
    begun = { rows, started: now() }
    return call()
  })
  wrap(Context, 'wait', (_, call) => {
    const result = call()
    if (begun !== null) steps.push({ ...begun, ended: now(), choosingMs: 0 })
    begun = null
    return result
  })
  wrap(Sequence, 'generate', (_, call) => {
    const started = performance.now()
    const result = call()
    const last = steps.at(-1)
    if (last !== undefined) last.choosingMs += performance.now() - started
    return result
  })
  const flush = () => {
    // The last one may still be choosing.
    const complete = steps.slice(0, -1)
    steps = steps.slice(-1)
    if (complete.length > 0) appendFileSync(file, `${complete.map((step) => JSON.stringify(step)).join('\n')}\n`)
  }
  setInterval(flush, FLUSH_MS).unref()
}

const target = process.env[VARIABLE]
if (target !== undefined && isMainThread && process.argv[1] === enginePath()) await noteSteps(target)

function enginePath(): string {
  return fileURLToPath(new URL('../../src/inference/local/worker/engine-process.ts', import.meta.url))
}
