import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { availableParallelism, cpus, loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { z } from 'zod'
import type { Backend } from '../../../config/backend.ts'
import { getOrMake } from '../../../lib/get-or-make.ts'
import { makeFolder } from '../../../lib/make-folder.ts'
import { replaceFile } from '../../../lib/replace-file.ts'
import { version } from '../../../lib/version.ts'
import { loadLocalCard } from '../../../models/card.ts'
import type { MachineSpeed } from '../../../models/machine-speed.ts'
import { locateNativeLibraries } from '../native/native-paths.ts'
import { LocalEngine } from './local-engine.ts'
import { writeMeasuredModel } from './measured-model.ts'

export interface MachineSpeedOptions {
  /** Where the measurement is stored. */
  readonly dataDirectory: string
  /** The backend for local models. */
  readonly backend: Backend
  /** Whether other programs slow this machine down, so that the result is not stored. */
  readonly isBusy?: () => boolean
  /** How long the result is kept in that case. */
  readonly busyMs?: number
  /** Called before this machine is measured. */
  readonly onMeasure?: () => void
  /** What measures, in place of a model that takes seconds of all processors. */
  readonly measure?: (backend: Backend) => Promise<MachineSpeed | null>
}

const FILE = 'machine-speed.json'
/** Time limit. Beyond it, models are listed without their speed. */
const LIMIT_MS = 30_000

const stored = z.object({
  /** Everything that the speed depends on. */
  machine: z.record(z.string(), z.unknown()),
  speed: z.object({ bytesPerSecond: z.number().positive(), multiplyAddsPerSecond: z.number().positive() }).nullable(),
})

/** How long the result of a busy machine counts: it may be less busy then. */
const BUSY_MS = 5 * 60_000

interface Measurement {
  readonly speed: Promise<MachineSpeed | null>
  /** By `performance.now()`. */
  endsAt: number
}

/** By data directory: measurements of this process, under way or done. */
const measurements = new Map<string, Measurement>()

/**
 * The speed of this machine with weights in Q4_K_M. A process of its own measures it once, within about three seconds, and
 * again when the processor or the libraries change. Null where it cannot be measured, or where a GPU computes: a model small
 * enough to be written quickly says nothing about a GPU.
 */
export async function machineSpeed(options: MachineSpeedOptions): Promise<MachineSpeed | null> {
  const { dataDirectory, backend } = options
  const file = join(dataDirectory, FILE)
  try {
    const machine = await describeMachine(backend)
    const known = await readStored(file)
    if (known !== null && JSON.stringify(known.machine) === JSON.stringify(machine)) return known.speed
    if ((measurements.get(dataDirectory)?.endsAt ?? 0) <= performance.now()) measurements.delete(dataDirectory)
    return await getOrMake(measurements, dataDirectory, () => newMeasurement(file, machine, options)).speed
  } catch {
    return null
  }
}

function newMeasurement(
  file: string,
  machine: z.output<typeof stored>['machine'],
  options: MachineSpeedOptions,
): Measurement {
  const measurement = { speed: measureAndStore(file, machine, options), endsAt: Number.POSITIVE_INFINITY }
  const note = (speed: MachineSpeed | null) => {
    if (speed?.isBusy) measurement.endsAt = performance.now() + (options.busyMs ?? BUSY_MS)
  }
  measurement.speed.then(note, () => {})
  return measurement
}

/** The conditions of a measurement, with which those of a stored speed are compared. */
export async function describeMachine(backend: Backend): Promise<z.output<typeof stored>['machine']> {
  const { kernels, gpu } = locateNativeLibraries(backend)
  return {
    processor: cpus()[0]?.model.trim() ?? '',
    cores: availableParallelism(),
    kernels,
    gpu: gpu.libraries.map(({ path }) => path),
    lookout: await version(),
  }
}

async function readStored(file: string): Promise<z.output<typeof stored> | null> {
  try {
    return stored.parse(JSON.parse(await readFile(file, 'utf8')))
  } catch {
    return null
  }
}

async function measureAndStore(
  file: string,
  machine: z.output<typeof stored>['machine'],
  { dataDirectory, backend, isBusy = othersCompute, onMeasure, measure = measureModel }: MachineSpeedOptions,
): Promise<MachineSpeed | null> {
  const keeps = !isBusy()
  onMeasure?.()
  const speed = await measure(backend)
  if (!keeps) return speed && { ...speed, isBusy: true }
  await makeFolder(dataDirectory, 0o777)
  await replaceFile(file, (draft) => writeFile(draft, `${JSON.stringify({ machine, speed }, null, 2)}\n`))
  return speed
}

/** In a container, both are those of its machine. */
function othersCompute(): boolean {
  return loadavg()[0]! > cpus().length / 2
}

async function measureModel(backend: Backend): Promise<MachineSpeed | null> {
  const folder = await mkdtemp(join(tmpdir(), 'lookout-speed-'))
  try {
    const { card, bytes, parameters } = await writeMeasuredModel(folder)
    const signal = AbortSignal.timeout(LIMIT_MS)
    const engine = await LocalEngine.start(await loadLocalCard(card), { backend, signal })
    try {
      const { stepMs, promptRowMs } = engine.stepTimes
      if ((engine.offload?.devices.length ?? 0) > 0) return null
      return { bytesPerSecond: (bytes / stepMs) * 1000, multiplyAddsPerSecond: (parameters / promptRowMs) * 1000 }
    } finally {
      await engine.close()
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
