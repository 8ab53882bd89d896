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
export interface Recipe {
  readonly name: string
  readonly folders: readonly string[]
  readonly sources: readonly string[]
  readonly own?: readonly string[]
  readonly ownHeaders?: readonly string[]
  readonly flags: readonly string[]
}
export const MTMD: Recipe
export const CPU: Recipe
export function findLibrary(recipe: Recipe, platform: string, env?: NodeJS.ProcessEnv): string | null
export function findRefusal(recipe: Recipe, platform: string, env?: NodeJS.ProcessEnv): string | null
export function libraryDirectory(recipe: Recipe, platform: string, env?: NodeJS.ProcessEnv): string
/** Paths of a recipe's own sources. */
export function ownSources(recipe: Recipe): string[]
export function libraryFile(recipe: Recipe): string
export function writeManifest(directory: string, recipe: Recipe, platform: string, refused: string | null): void
export function wantsOwnKernels(platform: string): boolean
export function cacheDirectory(env?: NodeJS.ProcessEnv): string
