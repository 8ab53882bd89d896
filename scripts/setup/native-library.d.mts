export const LLAMA_RELEASE: string
export const PACKAGE_RELEASE: string
export const SOURCE_INTEGRITY: string

export class SetupError extends Error {}

export interface PrebuiltLibraries {
  /** Node's platform and architecture, e.g. `linux-x64`. */
  readonly platform: string
  readonly directory: string
  readonly ggmlBase: string
  readonly ggml: string
  readonly llama: string
  readonly llamaCommon: string
}

export function locatePrebuilt(): PrebuiltLibraries
export function findMtmd(platform: string, env?: NodeJS.ProcessEnv): string | null
export function cacheDirectory(env?: NodeJS.ProcessEnv): string
