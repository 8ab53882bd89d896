// Which CUDA backend a machine gets, from facts about the machine. Plain JavaScript: set-up may run on an older Node.
import { SetupError } from './native-library.mjs'
import { run } from './run.mjs'

/** @import { CudaPackage, Gpu } from './types.ts' */

/** The minimum driver for CUDA 13, with which the package's backend is compiled. */
const DRIVER_MAJOR = 580
/** The driver's program takes seconds per GPU if no program has used the GPUs yet. */
const LIMIT_MS = 120_000

/**
 * NVIDIA's GPUs of this machine, by the driver's own program; none if it is missing or fails.
 * @throws SetupError when it does not respond: everything that uses a GPU would hang as well.
 * @returns {Promise<Gpu[]>}
 */
export async function findGpus(command = 'nvidia-smi', limitMs = LIMIT_MS) {
  try {
    const args = ['--query-gpu=compute_cap,driver_version,name', '--format=csv,noheader']
    return (await run(command, args, { limitMs })).split('\n').flatMap((line) => {
      const [, major, minor, driver, name] = /^(\d+)\.(\d), ([\d.]+), (.+)$/.exec(line.trim()) ?? []
      return name === undefined ? [] : [{ name, capability: Number(major + minor), driver }]
    })
  } catch (error) {
    if (!/did not answer/.test(error.message)) return []
    throw new SetupError(`The GPU's driver hangs: ${error.message}. Restart the machine, and try again.`)
  }
}

/** A compute capability as NVIDIA writes it. @param {number} capability */
export function capabilityText(capability) {
  return `${Math.floor(capability / 10)}.${capability % 10}`
}

/** Machine code for X.Y runs on X.Z, where Z is Y or greater. */
function runsOn(architecture, capability) {
  return Math.floor(architecture / 10) === Math.floor(capability / 10) && architecture <= capability
}

/**
 * The ways to a CUDA backend that set-up tries until one passes its check, and why it leaves out the package.
 *
 * `cached` is the library that set-up has made or copied before, `packaged` the one of Lookout's package with its
 * architectures, and `compiled` the one that a CUDA toolkit makes: all have Lookout's own kernels. `fetched` is llama.cpp's.
 * @param {{ cached: string | null, packaged: CudaPackage | null, gpus: readonly Gpu[], nvcc: string | null }} facts without
 * `gpus`, machine code is not chosen by them.
 * @returns {{ ways: readonly ('cached' | 'packaged' | 'compiled' | 'fetched')[], reason: string | null }}
 */
export function chooseCuda({ cached, packaged, gpus, nvcc }) {
  const reason = packaged === null ? null : whyNot(packaged, gpus)
  return {
    ways: [
      ...(cached === null ? [] : ['cached']),
      ...(packaged === null || reason !== null ? [] : ['packaged']),
      ...(nvcc === null ? [] : ['compiled']),
      'fetched',
    ],
    reason: reason === null ? null : `not using ${packaged.name}: ${reason}`,
  }
}

function whyNot({ problem, architectures }, gpus) {
  if (problem !== null) return problem
  const old = gpus.find(({ driver }) => Number.parseInt(driver, 10) < DRIVER_MAJOR)
  if (old !== undefined) return `it needs a driver of version ${DRIVER_MAJOR} or later, and this one is ${old.driver}`
  const other = gpus.find(({ capability }) => !architectures.some((number) => runsOn(number, capability)))
  if (other === undefined) return null
  const has = architectures.map(capabilityText).join(', ')
  return `it has machine code for compute capability ${has}, and ${other.name} has ${capabilityText(other.capability)}`
}
