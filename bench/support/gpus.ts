import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { locateNativeLibraries } from '../../src/inference/local/native/native-paths.ts'

const LIST = fileURLToPath(new URL('list-gpus.ts', import.meta.url))

export interface Gpus {
  /** Path of the backend's library that Lookout loads. */
  readonly library: string
  /** Names of the devices, with ggml's names for them. */
  readonly names: string
}

let found: Gpus | null | undefined

/** The GPUs that Lookout uses on this machine; null without one. */
export function gpus(): Gpus | null {
  if (found === undefined) {
    const library = locateNativeLibraries().gpu.libraries[0]?.path
    const names = library === undefined ? '' : execFileSync(process.execPath, [LIST], { encoding: 'utf8' }).trim()
    found = library === undefined || names === '' ? null : { library, names }
  }
  return found
}
