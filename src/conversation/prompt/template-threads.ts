import { Tinypool } from 'tinypool'
import type { RenderTask } from './template-worker.ts'

/** An idle thread ends after this time and frees its memory. */
const IDLE_MS = 30_000

/** Renders long conversations off the event loop: tens of thousands of turns take the interpreter a second. */
export class TemplateThreads {
  readonly #pool = new Tinypool({
    filename: new URL('./template-worker.ts', import.meta.url).href,
    minThreads: 0,
    maxThreads: 1,
    idleTimeout: IDLE_MS,
  })

  /** @throws Error with the template's own message when the template rejects its values. */
  async render(source: string, values: object): Promise<string> {
    const task: RenderTask = { source, values }
    return (await this.#pool.run(task)) as string
  }

  async close(): Promise<void> {
    await this.#pool.destroy()
  }
}
