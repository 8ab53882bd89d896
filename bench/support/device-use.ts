import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'

const EVERY_MS = 100
const QUERY = ['--query-gpu=utilization.gpu', '--format=csv,noheader,nounits', '-lms', String(EVERY_MS)]
/** A figure of NVML covers a period that may have ended this long ago, in ms. */
const LAG_MS = 150
/** Time after which a driver that has given no figure is taken to hang. */
const SILENCE_MS = 120_000

/**
 * How much of the time the first GPU worked, as the driver counts it: the share of each period in which a program of the
 * device ran, however little of the device it used. Without `nvidia-smi`, or where it does not answer, there are no figures.
 */
export class DeviceUse implements Disposable {
  readonly #child: ChildProcess
  readonly #silence: NodeJS.Timeout
  readonly #samples: { readonly at: number; readonly percent: number }[] = []

  constructor() {
    this.#child = spawn('nvidia-smi', QUERY, { stdio: ['ignore', 'pipe', 'ignore'] })
    this.#child.on('error', () => {}).on('close', () => clearTimeout(this.#silence))
    // A kill at the end of this process would come too late for one that was interrupted.
    this.#child.unref()
    this.#silence = setTimeout(() => {
      console.warn(`nvidia-smi did not answer within ${SILENCE_MS / 1000} s: how busy the device is is not known.`)
      this[Symbol.dispose]()
    }, SILENCE_MS).unref()
    createInterface({ input: this.#child.stdout! }).on('line', (line) => {
      clearTimeout(this.#silence)
      const percent = Number(line)
      if (line.trim() !== '' && Number.isFinite(percent)) this.#samples.push({ at: performance.now(), percent })
    })
  }

  /** Percent, mean between two times of `performance.now`; null where nothing was sampled between them. */
  between(started: number, ended: number): number | null {
    const within = this.#samples.filter(({ at }) => at >= started + LAG_MS && at <= ended + LAG_MS / 2)
    return within.length === 0 ? null : within.reduce((sum, { percent }) => sum + percent, 0) / within.length
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#silence)
    this.#child.kill('SIGKILL')
    // One that hangs in the driver does not end, and its pipe would keep this process.
    this.#child.stdout?.destroy()
  }
}
