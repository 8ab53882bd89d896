import type { LibraryHandle } from 'koffi'
import { declareIn } from '../declare.ts'
import type { GpuPaths } from '../native-paths.ts'
import type { Pointer } from '../structs.ts'

/** A device beside the CPU on which ggml can compute. */
export interface Device {
  readonly handle: Pointer
  /** How ggml allocates memory on it. */
  readonly bufferType: Pointer
  /** ggml's name, such as `CUDA0`: what a card's `engine.gpu.devices` names. */
  readonly name: string
  /** The name that its driver gives it. */
  readonly description: string
  readonly memoryBytes: number
  /** When the device was listed. */
  readonly freeBytes: number
}

export interface Devices {
  /** Those that models may use. */
  readonly list: readonly Device[]
  /** Why there are none although the settings ask for one, in one or two sentences; else null. */
  readonly problem: string | null
  /** Whether the settings disable devices. */
  readonly isOff: boolean
}

const TYPE_GPU = 1
const TYPE_INTEGRATED_GPU = 2

/**
 * Loads GPU backends until one of them has a device. The CPU's backend must be loaded already.
 * @param ggml libggml.
 * @param load `ggml_backend_load`, which returns null for a library that cannot be loaded.
 */
export function openDevices(
  ggml: LibraryHandle,
  { wanted, libraries, missing }: GpuPaths,
  load: (path: string) => Pointer | null,
): Devices {
  if (wanted === 'cpu') return { list: [], problem: null, isOff: true }
  const list = bindDevices(ggml)
  // A backend that is part of the CPU's, such as Metal, has its devices already.
  let devices = list()
  const failed: string[] = []
  for (const { name, path } of libraries) {
    if (devices.length > 0) break
    if (load(path) === null) failed.push(`${path} cannot be loaded: something that ${name} needs is not installed.`)
    else failed.push(`The ${name} backend finds no device.`)
    devices = list()
  }
  if (devices.length > 0) return { list: devices, problem: null, isOff: false }
  const problem = [...(missing === null ? [] : [missing]), ...failed].join(' ')
  return { list: [], problem: problem || null, isOff: false }
}

function bindDevices(ggml: LibraryHandle): () => readonly Device[] {
  const declare = declareIn(ggml)
  const count = declare('size_t ggml_backend_dev_count()')
  const get = declare('pointer ggml_backend_dev_get(size_t index)')
  const type = declare('int ggml_backend_dev_type(pointer device)')
  const name = declare('str ggml_backend_dev_name(pointer device)')
  const description = declare('str ggml_backend_dev_description(pointer device)')
  const bufferType = declare('pointer ggml_backend_dev_buffer_type(pointer device)')
  const memory = declare('void ggml_backend_dev_memory(pointer device, out_size free, out_size total)')
  return () => {
    const all = Array.from({ length: count() }, (_, index) => {
      const handle = get(index)
      return { handle, type: type(handle), name: name(handle), description: description(handle) }
    })
    const separate = all.filter((device) => device.type === TYPE_GPU)
    // Like llama.cpp, use integrated GPUs only if there is no other.
    const gpus = separate.length > 0 ? separate : all.filter((device) => device.type === TYPE_INTEGRATED_GPU)
    return gpus.map(({ type: _type, ...device }) => {
      const [free, total]: [[number], [number]] = [[0], [0]]
      memory(device.handle, free, total)
      return { ...device, bufferType: bufferType(device.handle), memoryBytes: total[0], freeBytes: free[0] }
    })
  }
}
