import {
  CPU,
  findLibrary,
  locatePrebuilt,
  MTMD,
  type PrebuiltLibraries,
  SetupError,
} from '../../../setup/native-library.mjs'

/** Files of the native libraries that the engine loads. */
export interface NativePaths extends PrebuiltLibraries {
  readonly mtmd: string
  /** Kernels compiled for this processor; null where the prebuilt ones are used. */
  readonly kernels: string | null
}

/** @throws Error that says what to install when a library is missing. */
export function locateNativeLibraries(): NativePaths {
  const prebuilt = locatePrebuilt()
  const mtmd = findLibrary(MTMD, prebuilt.platform)
  if (mtmd === null) {
    throw new SetupError('The image encoder library (libmtmd) has not been built on this machine: run "npm run setup".')
  }
  return { ...prebuilt, mtmd, kernels: findLibrary(CPU, prebuilt.platform) }
}
