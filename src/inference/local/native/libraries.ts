import type { LibraryHandle } from 'koffi'
import { ffi } from '../../../lib/libc.ts'
import { LLAMA_RELEASE } from '../../../setup/native-library.mjs'
import { declareIn } from './declare.ts'
import { bindDeviceChoice, type DeviceChoice } from './device/device-rows.ts'
import { type Devices, openDevices } from './device/devices.ts'
import { bindKernels, type Kernels } from './kernels.ts'
import { bindLlama, type Llama } from './llama.ts'
import { bindMtmd, type Mtmd } from './mtmd.ts'
import type { NativePaths } from './native-paths.ts'
import { limitSpinning } from './spin.ts'
import type { Pointer } from './structs.ts'

export interface NativeLibraries {
  readonly llama: Llama
  /** Null where it is not installed. */
  readonly mtmd: Mtmd | null
  /** Our kernels; null where ggml's own are used. */
  readonly kernels: Kernels | null
  /** Instruction sets that the kernels use, as ggml names them. */
  processorFeatures(): string[]
  /** GPUs that the settings allow and an installed backend supports. */
  readonly devices: Devices
  /** Samples on a device; null where its backend was not compiled with `device/logits.cu`. */
  readonly deviceChoice: DeviceChoice | null
  /**
   * Starts a thread that writes a byte to a file every `intervalMs` ms, even while this thread is blocked. See `pulse.cpp`. Null
   * where no library was compiled.
   */
  readonly startPulse: ((file: number, intervalMs: number) => void) | null
  /** Writes the log lines that the libraries have buffered. */
  flushLog(): void
}

/**
 * Keeps the libraries referenced. koffi unloads an unreferenced library, even while its threads run: a model without images uses
 * only the heartbeat of libmtmd.
 */
const loaded: LibraryHandle[] = []

function load(path: string, { global = false } = {}): LibraryHandle {
  const library = ffi().load(path, { global })
  loaded.push(library)
  return library
}

/** Warnings and errors. The next level would print the text of prompts, because libmtmd logs what it tokenises. */
const LOG_VERBOSITY_WARNING = 2

/**
 * Loads llama.cpp into this process. Call it once; the libraries cannot be unloaded.
 * @param spinNs how long kernel threads spin at a barrier; by default, the best duration for decoding.
 * @throws Error when a library is not the pinned release or its structs differ from our layouts.
 */
export function loadNativeLibraries(paths: NativePaths, spinNs?: number): NativeLibraries {
  // Each library needs those before it. `global` is for libraries that refer to them by symbol only.
  load(paths.ggmlBase, { global: true })
  const ggml = load(paths.ggml, { global: true })
  const llamaLibrary = load(paths.llama, { global: true })
  const common = load(paths.llamaCommon)

  // llama.cpp's own logger writes to stderr from a thread of its own, so any thread may log. A JavaScript callback
  // would deadlock: it would wait for the main thread, which waits for the native call. The names are C++ (Itanium
  // ABI).
  const logCallback = common.symbol('_Z27common_log_default_callback14ggml_log_levelPKcPv') as Pointer
  const logMain = common.func('_Z15common_log_mainv', 'void *', []) as () => Pointer
  const logFlush = common.func('_Z16common_log_flushP10common_log', 'void', ['void *']) as (log: Pointer) => void
  const setVerbosity = common.func('_Z30common_log_set_verbosity_tholdi', 'void', ['int']) as (level: number) => void
  setVerbosity(LOG_VERBOSITY_WARNING)

  const llama = bindLlama(llamaLibrary)
  const version = llama.version()
  // The prebuilt packages add a suffix, such as "-dev".
  if (version.split('-')[0] !== LLAMA_RELEASE) {
    throw new Error(`This release of Lookout needs llama.cpp ${LLAMA_RELEASE}; ${paths.llama} is ${version}.`)
  }
  llama.log_set(logCallback, null)
  const loadBackend = declareIn(ggml)('pointer? ggml_backend_load(str path)')
  const loadBackends = declareIn(ggml)('void ggml_backend_load_all_from_path(str directory)')
  const mtmdLibrary = paths.mtmd === null ? null : load(paths.mtmd)
  const iterationNs = mtmdLibrary?.func('lookout_spin_ns', 'double', []) as (() => number) | undefined
  limitSpinning(iterationNs?.() ?? null, spinNs)
  // From the prebuilt kernels, ggml chooses the best for this processor.
  const kernels = paths.kernels !== null && loadBackend(paths.kernels) !== null ? bindKernels(paths.kernels) : null
  if (kernels === null) loadBackends(paths.directory)
  else kernels.clearWithZeroPages()
  const devices = openDevices(ggml, paths.gpu, loadBackend)
  llama.backend_init()
  const cuda = devices.list.some(({ name }) => name.startsWith('CUDA'))
    ? paths.gpu.libraries.find(({ name }) => name === 'cuda')
    : undefined

  if (cuda !== undefined) switchOn(cuda.path)

  const mtmd = mtmdLibrary === null ? null : bindMtmd(mtmdLibrary)
  mtmd?.log_set(logCallback, null)
  const startPulse = (mtmdLibrary?.func('lookout_start_pulse', 'void', ['int', 'int']) ??
    null) as NativeLibraries['startPulse']
  const systemInfo = llamaLibrary.func('llama_print_system_info', 'str', []) as () => string
  return {
    llama,
    mtmd,
    kernels,
    devices,
    deviceChoice: cuda === undefined ? null : bindDeviceChoice(cuda.path),
    startPulse,
    processorFeatures: () => featuresOf(systemInfo()),
    flushLog: () => logFlush(logMain()),
  }
}

/** Optional features of a CUDA backend with our functions. They are off where another program loads the same library. */
const CUDA_SWITCHES = ['lookout_use_bf16_gemm', 'lookout_keep_graphs']

/** See `device/gemm.cu` and `device/graphs.cu`. */
function switchOn(path: string): void {
  const library = load(path)
  for (const name of CUDA_SWITCHES) {
    try {
      library.symbol(name)
    } catch {
      continue
    }
    const switchTo = library.func(name, 'void', ['bool']) as (on: boolean) => void
    switchTo(true)
  }
}

/** @param systemInfo such as `CPU : AVX2 = 1 | AVX512 = 1 | `. */
function featuresOf(systemInfo: string): string[] {
  const [, processor = ''] = /CPU : ([^:]*)/.exec(systemInfo) ?? []
  return [...processor.matchAll(/(\w+) = 1/g)].map(([, name]) => name!)
}
