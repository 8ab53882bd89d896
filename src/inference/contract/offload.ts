/** The card's `engine.gpu`, and what the remaining decisions depend on. */
export interface GpuSettings {
  readonly layers: number | 'auto'
  readonly splitMode: 'none' | 'layer' | 'row' | 'tensor'
  /** An index into the devices. */
  readonly mainDevice: number
  readonly tensorSplit: readonly number[] | null
  /** Their names; null for all. */
  readonly devices: readonly string[] | null
  /** Whether a device runs the encoders. */
  readonly encoder: boolean
  readonly weights: WeightSizes
}

/** Memory of a model's parts, in bytes. */
export interface WeightSizes {
  /** Dimensions of a token's embedding; 0 if the file does not say. */
  readonly width: number
  /** Number of layers, which share `modelBytes` and the KV cache evenly. */
  readonly layers: number
  readonly modelBytes: number
  readonly encoderBytes: number
  readonly kvBytes: number
  /** Scratch memory of a batch on the CPU. */
  readonly scratchBytes: number
}

/** What GPUs compute of a model; the CPU computes the rest. */
export interface OffloadReport {
  /** Empty if the CPU computes everything. */
  readonly devices: readonly { readonly name: string; readonly description: string; readonly memoryBytes: number }[]
  /** Number of layers on the devices, with their part of the KV cache; the output counts as a layer. */
  readonly layers: number
  readonly ofLayers: number
  /** Name of the device that runs the encoders, or `CPU`; null for a model without encoders. */
  readonly encoder: string | null
  /** What the operator should know, in one or two sentences; null if everything runs as the card asks. */
  readonly problem: string | null
}

/** What runs where, in one line. */
export function describeOffload({ devices, layers, ofLayers, encoder }: OffloadReport): string {
  if (devices.length === 0) return 'everything on the CPU'
  const on = devices.map(({ name, description, memoryBytes }) => `${name} (${description}, ${gib(memoryBytes)} GiB)`)
  const share = layers >= ofLayers ? `all ${ofLayers} layers` : `${layers} of ${ofLayers} layers, the others on the CPU`
  return [
    `${share} and their KV cache on ${on.join(' and ')}`,
    ...(encoder === null ? [] : [`encoders on ${encoder}`]),
  ].join('; ')
}

const gib = (bytes: number) => (bytes / 2 ** 30).toFixed(1)
