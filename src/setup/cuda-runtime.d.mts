import type { Wheel } from './wheels.mjs'

/** What the backend is compiled with, for machines without a CUDA toolkit. */
export const TOOLKIT_WHEELS: readonly Wheel[]
/** Where the wheels have everything. */
export const WHEEL_ROOT: string
/** Whether a library could not be loaded because CUDA's runtime is missing. */
export function lacksRuntime(refusal: string | null): boolean
interface Means {
  readonly log: (message: string) => void
  readonly env?: NodeJS.ProcessEnv
  readonly get?: typeof fetch
}
/** Puts links to CUDA's runtime beside a library, and fetches it where the cache has none. @throws SetupError */
export function addRuntime(
  library: string,
  to: Means & { readonly workspace: string; readonly mayFetch: boolean; readonly wheels?: readonly Wheel[] },
): Promise<void>
/** Fetches wheels and unpacks what `place` says of each into a folder. */
export function fetchWheels(
  wheels: readonly Wheel[],
  folder: string,
  workspace: string,
  means: Means,
  place: (name: string) => string | null,
): Promise<void>
