import { Tinypool } from 'tinypool'
import type { RenderTask } from './template-worker.ts'

/** A thread that had nothing to do for this long ends, and gives back its memory. */
const IDLE_MS = 30_000

/** Renders what takes long away from the event loop: an interpreter takes a second for tens of thousands of turns. */
export class TemplateThreads {
  readonly #pool = new Tinypool({
    filename: new URL('./template-worker.ts', import.meta.url).href,
    minThreads: 0,
    maxThreads: 1,
    idleTimeout: IDLE_MS,
  })

  /** @throws Error in the template's own words when it refuses its values. */
  async render(source: string, values: object): Promise<string> {
    const task: RenderTask = { source, values }
    return (await this.#pool.run(task)) as string
  }

  async close(): Promise<void> {
    await this.#pool.destroy()
  }
}
