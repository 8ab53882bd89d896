import { readFile } from 'node:fs/promises'
import { arch, availableParallelism, cpus, platform, totalmem } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import { version } from '../../src/lib/version.ts'
import { LLAMA_RELEASE, PACKAGE_RELEASE } from '../../src/setup/native-library.mjs'
import { run } from '../../src/setup/run.mjs'
import type { Benchmark, BenchOptions } from './benchmark.ts'
import { gpus } from './gpus.ts'
import { processorTicks } from './process-tree.ts'
import { targetProcessor } from './processor.ts'

/** One line with the machine and the versions behind the figures. */
export async function machineFacts(
  { withPeer }: Pick<Benchmark, 'withPeer'>,
  { against }: Pick<BenchOptions, 'against'>,
): Promise<string> {
  const memory = `${Math.round(totalmem() / 2 ** 30)} GiB`
  const machine = `${availableParallelism()} cores (${cpus()[0]?.model.trim()}), ${memory}, ${platform()} ${arch()}`
  const lookout = `Lookout ${await version()} (llama.cpp ${LLAMA_RELEASE}, npm ${PACKAGE_RELEASE}; Node ${process.version})`
  const devices = gpus()
  const processor = targetProcessor()
  const native = processor === null ? 'native build' : `built for ${processor}`
  const build = devices === null ? native : "with Lookout's GPU backend"
  const kernels = processor === null ? '' : `; kernels compiled for ${processor}`
  const peer = withPeer ? `; peer: llama.cpp ${LLAMA_RELEASE}, ${build}` : ''
  const other = against === null ? peer : `; before: ${await commitOf(against)}, now: ${await commitOf('.')}`
  return `${machine}${devices === null ? '' : `, ${devices.names}`}; ${lookout}${kernels}${other}`
}

/** The commit of a tree, and whether it has changes. */
async function commitOf(path: string): Promise<string> {
  return (await run('git', ['-C', path, 'describe', '--always', '--dirty', '--exclude=*'])).trim()
}

/** When other programs take more than this share of the processor time, the figures are unreliable. */
const DISTURBED = 0.03
const TICKS_PER_SECOND = 100
/** In all benchmarks of this run. */
let repeatedRounds = 0

/** Measures how busy other programs are while a benchmark runs. Linux only. */
export class Disturbance {
  readonly #started: number
  readonly #busy: number
  readonly #own: number

  private constructor(busy: number, own: number) {
    this.#started = performance.now()
    this.#busy = busy
    this.#own = own
  }

  static async watch(): Promise<Disturbance | null> {
    if (platform() !== 'linux') return null
    const idleCheck = await Disturbance.#now()
    await delay(500)
    const share = await idleCheck.share()
    if (share > DISTURBED)
      warn(`Other programs take ${percent(share)} of the machine now: the figures will be unreliable.`)
    return Disturbance.#now()
  }

  static async #now(): Promise<Disturbance> {
    return new Disturbance(await busyTicks(), await processorTicks(process.pid))
  }

  /** Share of all cores' time since the start that other programs used. */
  async share(): Promise<number> {
    const seconds = (performance.now() - this.#started) / 1000
    const own = (await processorTicks(process.pid)) - this.#own
    const others = (await busyTicks()) - this.#busy - own
    return Math.max(0, others / TICKS_PER_SECOND / seconds / availableParallelism())
  }

  async report(): Promise<string> {
    const share = await this.share()
    const repeated =
      repeatedRounds === 0 ? '' : `; ${repeatedRounds} rounds repeated, as other machines took processors`
    const words = `other programs took ${percent(share)} of the machine${repeated}`
    return share > DISTURBED ? `${words}: DISTURBED, run it again` : words
  }
}

/**
 * Watches a round of measurements. Where machines share processors, a hypervisor may take one away for longer than a short call.
 * @returns tells, and counts, whether it took a disturbing share of the time since.
 */
export async function watchRound(): Promise<() => Promise<boolean>> {
  const [started, before] = [performance.now(), await stolenTicks()]
  return async () => {
    const seconds = (performance.now() - started) / 1000
    const stolen = ((await stolenTicks()) - before) / TICKS_PER_SECOND
    const isDisturbed = stolen / seconds / availableParallelism() > DISTURBED
    if (isDisturbed) repeatedRounds++
    return isDisturbed
  }
}

/** Clock ticks in which cores were not idle, including those taken by the hypervisor. */
async function busyTicks(): Promise<number> {
  const { user, nice, system, irq, softirq, steal } = await ticks()
  return user + nice + system + irq + softirq + steal
}

/** Clock ticks that the hypervisor took; 0 where the system does not say. */
async function stolenTicks(): Promise<number> {
  return platform() === 'linux' ? (await ticks()).steal : 0
}

/** Those of all cores since the machine started. Linux only. */
async function ticks() {
  const [line] = (await readFile('/proc/stat', 'utf8')).split('\n')
  const [user, nice, system, , , irq, softirq, steal] = line!.split(/\s+/).slice(1).map(Number)
  return { user: user!, nice: nice!, system: system!, irq: irq!, softirq: softirq!, steal: steal! }
}

const percent = (share: number) => `${(share * 100).toFixed(1)} %`

export function warn(message: string): void {
  process.stderr.write(`bench: ${message}\n`)
}
