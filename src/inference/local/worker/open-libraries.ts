import { Worker } from 'node:worker_threads'
import { PULSE_FILE, PULSE_MS } from '../heartbeat.ts'
import { loadNativeLibraries, type NativeLibraries } from '../native/libraries.ts'
import { locateNativeLibraries, type NativePaths } from '../native/native-paths.ts'
import type { EngineSettings } from '../protocol.ts'

/**
 * Loads the libraries, and starts a thread that shows that the process is alive.
 * @param compiledKernels whether to use our kernels.
 * @param spinNs how long their threads spin at a barrier; by default, the best duration for decoding.
 */
export function openLibraries(
  { backend }: EngineSettings,
  compiledKernels: boolean,
  spinNs?: number,
): { readonly paths: NativePaths; readonly libraries: NativeLibraries } {
  const located = locateNativeLibraries(backend)
  const paths = compiledKernels ? located : { ...located, kernels: null }
  const libraries = loadNativeLibraries(paths, spinNs)
  // Only the main thread can send messages, and it may spend minutes in native calls: reading the weights is one.
  if (libraries.startPulse !== null) libraries.startPulse(PULSE_FILE, PULSE_MS)
  else new Worker(new URL('./pulse-thread.ts', import.meta.url)).unref()
  return { paths, libraries }
}
