export interface Gpu {
  readonly name: string
  /** The compute capability, times ten. */
  readonly capability: number
  readonly driver: string
}
/** NVIDIA's GPUs of this machine; none where the driver's program is missing or fails. @throws SetupError when it hangs. */
export function findGpus(command?: string, limitMs?: number): Promise<Gpu[]>
/** A compute capability as NVIDIA writes it. */
export function capabilityText(capability: number): string
export type Way = 'cached' | 'packaged' | 'compiled' | 'fetched'
/** The ways to a CUDA backend that set-up tries, and why it leaves out the package; null when it does not. */
export function chooseCuda(facts: {
  readonly cached: string | null
  readonly packaged: {
    /** Of the package. */
    readonly name: string
    /** Why it is not used in any case; null when nothing is wrong. */
    readonly problem: string | null
    readonly architectures: readonly number[]
  } | null
  readonly gpus: readonly Gpu[]
  readonly nvcc: string | null
}): { readonly ways: readonly Way[]; readonly reason: string | null }
