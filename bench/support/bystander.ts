/**
 * Another client of a server under load: it polls `/healthz` and reads a stream. It runs in its own thread, so that the
 * benchmark's own work does not affect it.
 */
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import type { BenchServer } from './server.ts'

export interface Observed {
  /** The slowest response of `/healthz`, and the longest gap between texts of a stream, in ms. */
  readonly healthMs: number
  readonly tokenMs: number
  /** Number of `/healthz` responses, and of texts. */
  readonly answers: number
  readonly texts: number
}

type Target = Pick<BenchServer, 'url' | 'apiKey' | 'model'>

/** Runs the work and returns what another client observed. */
export async function observed(server: Target, work: () => Promise<void>): Promise<Observed> {
  const { url, apiKey, model } = server
  const worker = new Worker(new URL(import.meta.url), { workerData: { url, apiKey, model } satisfies Target })
  await once(worker, 'message')
  await work()
  worker.postMessage('stop')
  const [result] = (await once(worker, 'message')) as [Observed]
  await worker.terminate()
  return result
}

const PAUSE_MS = 20
const QUESTION = 'List the letters of the alphabet, each with a word.'

class Bystander {
  readonly #server: Target
  readonly #stopped = new AbortController()
  #healthMs = 0
  #tokenMs = 0
  #answers = 0
  #texts = 0

  constructor(server: Target) {
    this.#server = server
  }

  get observed(): Observed {
    return { healthMs: this.#healthMs, tokenMs: this.#tokenMs, answers: this.#answers, texts: this.#texts }
  }

  async watch(): Promise<void> {
    await Promise.all([this.#askHealth(), this.#readStreams()]).catch((error: unknown) => {
      if (!this.#stopped.signal.aborted) throw error
    })
  }

  stop(): void {
    this.#stopped.abort()
  }

  async #askHealth(): Promise<void> {
    const { signal } = this.#stopped
    while (!signal.aborted) {
      const asked = performance.now()
      const response = await fetch(`${this.#server.url}/healthz`, { signal })
      await response.text()
      if (this.#answers++ > 0) this.#healthMs = Math.max(this.#healthMs, performance.now() - asked)
      await delay(PAUSE_MS)
    }
  }

  async #readStreams(): Promise<void> {
    const { url, apiKey, model } = this.#server
    const { signal } = this.#stopped
    while (!signal.aborted) {
      const response = await fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model, stream: true, messages: [{ role: 'user', content: QUESTION }], temperature: 1 }),
        signal,
      })
      let last = performance.now()
      for await (const piece of response.body!) {
        const now = performance.now()
        if (!Buffer.from(piece).includes('"content"')) continue
        // The wait for the first text includes the prefill.
        if (this.#texts++ > 0) this.#tokenMs = Math.max(this.#tokenMs, now - last)
        last = now
      }
    }
  }
}

if (!isMainThread) {
  const bystander = new Bystander(workerData as Target)
  parentPort!.once('message', () => {
    parentPort!.postMessage(bystander.observed)
    bystander.stop()
  })
  void bystander.watch()
  parentPort!.postMessage('watching')
}
