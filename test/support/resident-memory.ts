import { readdir, readFile } from 'node:fs/promises'

/** Watches the resident memory of this process and all its descendants. Linux only (reads /proc). */
export class ResidentMemory implements AsyncDisposable {
  /** Bytes at the start. */
  readonly before: number
  #peak: number
  #isOver = false
  readonly #watching: Promise<void>

  private constructor(before: number) {
    this.before = before
    this.#peak = before
    this.#watching = this.#watch()
  }

  static async watch(): Promise<ResidentMemory> {
    return new ResidentMemory(await residentBytes())
  }

  /** Peak increase over `before`, in bytes. */
  get growth(): number {
    return this.#peak - this.before
  }

  async #watch(): Promise<void> {
    while (!this.#isOver) {
      this.#peak = Math.max(this.#peak, await residentBytes())
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isOver = true
    await this.#watching
  }
}

async function residentBytes(): Promise<number> {
  const processes = new Map<number, { readonly parent: number; readonly bytes: number }>()
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const status = await readFile(`/proc/${name}/status`, 'utf8').catch(() => '')
    const field = (key: string) => Number(new RegExp(`^${key}:\\s+(\\d+)`, 'm').exec(status)?.[1] ?? 0)
    processes.set(Number(name), { parent: field('PPid'), bytes: field('VmRSS') * 1024 })
  }
  let sum = 0
  for (const [pid, { bytes }] of processes) if (descends(pid)) sum += bytes
  return sum

  function descends(pid: number): boolean {
    if (pid === process.pid) return true
    const parent = processes.get(pid)?.parent
    return parent !== undefined && parent > 0 && descends(parent)
  }
}
