import koffi from 'koffi'
import type { GpuSettings, OffloadReport, WeightSizes } from '../../../contract/offload.ts'
import { BATCH_ROWS, DEVICE_BATCH_ROWS } from '../compute.ts'
import type { Pointer, StructValue } from '../structs.ts'
import type { Device, Devices } from './devices.ts'

/** llama.cpp's `llama_split_mode`. */
const SPLIT_MODES = { none: 0, layer: 1, row: 2, tensor: 3 } as const
/** Fraction of a device's free memory that a model may use: the estimate is rough, and drivers need some memory. */
const MEMORY_SHARE = 0.9
/** `llama_max_devices()`: entries of `tensor_split` that llama.cpp reads. */
const MAX_DEVICES = 16

/** Which part of a model is offloaded to devices; the CPU computes the rest. */
export interface Offload {
  /** Empty where the CPU computes everything. */
  readonly devices: readonly Device[]
  /** Layers on the devices, with their part of the KV cache. llama.cpp counts the output as one more layer. */
  readonly layers: number
  readonly ofLayers: number
  /** The device that runs the encoders; null for the CPU. */
  readonly encoder: Device | null
  /** Fields of `llama_model_params`. */
  readonly modelParams: Readonly<StructValue>
  /** Warning for the operator, in one or two sentences; else null. */
  readonly problem: string | null
}

/**
 * Decides what runs where.
 * @throws Error that names the card's field if its devices do not exist.
 */
export function planOffload({ list, problem, isOff }: Devices, settings: GpuSettings): Offload {
  const { layers: asked, splitMode, mainDevice, tensorSplit, devices: names, weights } = settings
  const ofLayers = weights.layers + 1
  const onCpu = (why: string | null): Offload => ({
    devices: [],
    layers: 0,
    ofLayers,
    encoder: null,
    modelParams: paramsOf([], 0),
    problem: why,
  })
  if (list.length === 0) {
    if (problem !== null) return onCpu(`${problem} The model runs on the CPU.`)
    const wants = typeof asked === 'number' && asked > 0 && !isOff
    return onCpu(wants ? `engine.gpu.layers is ${asked}, but there is no GPU; the model runs on the CPU.` : null)
  }
  const devices = chosen(list, names)
  if (mainDevice >= devices.length) {
    throw new Error(
      `engine.gpu.mainDevice is ${mainDevice}, but there are ${devices.length} devices: ${named(devices)}.`,
    )
  }
  if (tensorSplit !== null && tensorSplit.length !== devices.length) {
    throw new Error(
      `engine.gpu.tensorSplit has ${tensorSplit.length} numbers, but there are ${devices.length} devices: ${named(devices)}.`,
    )
  }
  const used = splitMode === 'none' ? [devices[mainDevice]!] : devices
  const layers = Math.min(ofLayers, asked === 'auto' ? fitting(used, weights) : asked)
  if (layers === 0) {
    return onCpu(
      asked === 'auto' ? `The model does not fit into the memory of ${named(used)}; it runs on the CPU.` : null,
    )
  }
  return {
    devices: used,
    layers,
    ofLayers,
    encoder: settings.encoder ? devices[mainDevice]! : null,
    modelParams: {
      ...paramsOf(devices, layers),
      split_mode: SPLIT_MODES[splitMode],
      main_gpu: mainDevice,
      tensor_split: tensorSplit === null ? null : padded(tensorSplit),
      ...(readsEmbeddings(used, layers === ofLayers, weights) ? { tensor_buft_overrides: embeddingsOn(used[0]!) } : {}),
    },
    problem:
      asked === 'auto' && layers < ofLayers
        ? `Only ${layers} of ${ofLayers} layers fit into the memory of ${named(used)}; the CPU computes the others.`
        : null,
  }
}

/**
 * Calls `allocate`, which allocates memory on the devices. @throws its error, with advice if the devices may be the cause.
 */
export function withHint<Result>({ devices, layers, ofLayers }: Offload, allocate: () => Result): Result {
  try {
    return allocate()
  } catch (error) {
    if (devices.length === 0 || !(error instanceof Error)) throw error
    const hint = 'If their memory is too small, lower engine.gpu.layers in the card, or set LOOKOUT_BACKEND=cpu.'
    throw new Error(`${error.message} ${layers} of ${ofLayers} layers were to go on ${named(devices)}. ${hint}`)
  }
}

/** Bytes of weights that the CPU computes with. */
export function bytesOfCpu({ layers, ofLayers, encoder }: Offload, weights: WeightSizes): number {
  return weights.modelBytes * (1 - layers / ofLayers) + (encoder === null ? weights.encoderBytes : 0)
}

/** The public report of an offload. */
export function reportOf({ devices, layers, ofLayers, encoder, problem }: Offload, hasEncoder: boolean): OffloadReport {
  return {
    devices: devices.map(({ name, description, memoryBytes }) => ({ name, description, memoryBytes })),
    layers,
    ofLayers,
    encoder: hasEncoder ? (encoder?.name ?? 'CPU') : null,
    problem,
  }
}

function chosen(list: readonly Device[], names: readonly string[] | null): readonly Device[] {
  if (names === null) return list
  return names.map((name) => {
    const device = list.find((one) => one.name === name)
    if (device === undefined) throw new Error(`engine.gpu.devices names ${name}, but the devices are: ${named(list)}.`)
    return device
  })
}

function named(devices: readonly Device[]): string {
  return devices.map(({ name, description }) => `${name} (${description})`).join(', ')
}

/** Estimated number of layers that fit into the devices' memory. */
function fitting(devices: readonly Device[], weights: WeightSizes): number {
  const free = devices.reduce((sum, { freeBytes }) => sum + freeBytes, 0)
  // Some drivers do not report free memory.
  if (free === 0) return weights.layers + 1
  const scratch = weights.scratchBytes * (DEVICE_BATCH_ROWS / BATCH_ROWS)
  const room = MEMORY_SHARE * free - weights.encoderBytes - scratch
  const perLayer = (weights.modelBytes + weights.kvBytes) / (weights.layers + 1)
  return Math.max(0, Math.min(weights.layers + 1, Math.floor(room / perLayer)))
}

/** With an explicit list, llama.cpp does not choose devices itself; an empty one means the CPU. */
function paramsOf(devices: readonly Device[], layers: number) {
  const handles: Pointer[] = devices.map(({ handle }) => handle)
  return { devices: BigUint64Array.from([...handles, 0n]), n_gpu_layers: layers }
}

/** CUDA reads rows of all types if their length is a multiple of this; else not those of some types. */
const WIDTH_STEP = 256

/**
 * Whether the device that computes all layers also looks up the token embeddings. llama.cpp leaves them to the CPU, which takes
 * 3 ms for a prompt of 500 tokens and 21 for 2,000 (2B parameters, beside an H200), while the device waits. Only CUDA is known
 * to support this for the types that models have.
 */
function readsEmbeddings(devices: readonly Device[], hasAll: boolean, { width }: WeightSizes): boolean {
  const [device] = devices
  return devices.length === 1 && device!.name.startsWith('CUDA') && hasAll && width > 0 && width % WIDTH_STEP === 0
}

const EMBEDDINGS = '^token_embd\\.weight$'

/** A list of one `llama_model_tensor_buft_override`, and its end. llama.cpp reads it while it loads the model. */
function embeddingsOn({ bufferType }: Device): BigUint64Array {
  const length = EMBEDDINGS.length + 1
  const pattern = koffi.alloc('char', length) as Pointer
  koffi.encode(pattern, 'char', EMBEDDINGS, length)
  return BigUint64Array.of(pattern, bufferType, 0n, 0n)
}

function padded(split: readonly number[]): Float32Array {
  const all = new Float32Array(MAX_DEVICES)
  all.set(split)
  return all
}
