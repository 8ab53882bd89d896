import koffi from 'koffi'
import { LLAMA_RELEASE } from '../../../setup/native-library.mjs'
import { bindLlama, type Llama } from './llama.ts'
import { bindMtmd, type Mtmd } from './mtmd.ts'
import type { NativePaths } from './native-paths.ts'
import type { Pointer } from './structs.ts'

export interface NativeLibraries {
  readonly llama: Llama
  readonly mtmd: Mtmd
  /** Writes out log lines that the libraries still hold back. */
  flushLog(): void
}

/** Warnings and errors. One more would print the text of prompts: libmtmd logs what it tokenises. */
const LOG_VERBOSITY_WARNING = 2

/**
 * Loads llama.cpp into this process, once; there is no way to unload it.
 * @throws Error when a library is not the pinned release or its structs differ from our layouts.
 */
export function loadNativeLibraries(paths: NativePaths): NativeLibraries {
  // Each needs the ones before it, under `global` for those that refer to them by symbol only.
  koffi.load(paths.ggmlBase, { global: true })
  const ggml = koffi.load(paths.ggml, { global: true })
  const llamaLibrary = koffi.load(paths.llama, { global: true })
  const common = koffi.load(paths.llamaCommon)

  // llama.cpp's own logger writes to stderr from a thread of its own, so any thread may log. A JavaScript callback
  // could not: it would wait for the thread that waits for it. The names are C++ (Itanium ABI).
  const logCallback = common.symbol('_Z27common_log_default_callback14ggml_log_levelPKcPv') as Pointer
  const logMain = common.func('_Z15common_log_mainv', 'void *', []) as () => Pointer
  const logFlush = common.func('_Z16common_log_flushP10common_log', 'void', ['void *']) as (log: Pointer) => void
  const setVerbosity = common.func('_Z30common_log_set_verbosity_tholdi', 'void', ['int']) as (level: number) => void
  setVerbosity(LOG_VERBOSITY_WARNING)

  const llama = bindLlama(llamaLibrary)
  const version = llama.version()
  // The prebuilt packages carry a suffix of their own, such as "-dev".
  if (version.split('-')[0] !== LLAMA_RELEASE) {
    throw new Error(`This release of Lookout needs llama.cpp ${LLAMA_RELEASE}; ${paths.llama} is ${version}.`)
  }
  llama.log_set(logCallback, null)
  const loadBackend = ggml.func('ggml_backend_load', 'void *', ['str']) as (path: string) => Pointer | null
  const loadBackends = ggml.func('ggml_backend_load_all_from_path', 'void', ['str']) as (directory: string) => void
  // Of the prebuilt kernels it takes those that suit the processor best.
  if (paths.kernels === null || loadBackend(paths.kernels) === null) loadBackends(paths.directory)
  llama.backend_init()

  const mtmd = bindMtmd(koffi.load(paths.mtmd))
  mtmd.log_set(logCallback, null)
  return { llama, mtmd, flushLog: () => logFlush(logMain()) }
}
