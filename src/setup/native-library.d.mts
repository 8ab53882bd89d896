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

/** @param platform for which they are; another than this machine's only to compile for it. @throws SetupError */
export function locatePrebuilt(platform?: string): PrebuiltLibraries
/** The npm package with the prebuilt libraries for a platform. @throws SetupError */
export function prebuiltPackage(platform: string): string
export interface Recipe {
  readonly name: string
  /** In words, for messages. */
  readonly what: string
  /** The level for which it is compiled; without one, this machine's processor. */
  readonly level?: string
  readonly folders: readonly string[]
  readonly sources: readonly string[]
  readonly own?: readonly string[]
  readonly ownHeaders?: readonly string[]
  readonly flags: readonly string[]
  /** Corrections of the sources. */
  readonly fixes?: readonly Fix[]
}
export interface Fix {
  /** Relative to the source tree. */
  readonly file: string
  readonly text: string
  readonly by: string
}
export const MTMD: Recipe
export const CPU: Recipe
/** The npm package with the libraries that were compiled ahead for a platform. */
export function platformPackage(platform: string): string
/** The folder of the installed platform package; null when there is none. */
export function packageDirectory(platform: string): string | null
/** The name of a build's folder, which stands for everything that determines the build. */
export function buildName(recipe: Recipe, platform: string): string
/** What was compiled on this machine, or else the platform package's; null when there is none that can be used. */
export function findLibrary(recipe: Recipe, platform: string, env?: NodeJS.ProcessEnv): string | null
export function findCompiled(recipe: Recipe, platform: string, env?: NodeJS.ProcessEnv): string | null
/** The platform package's library, with the recipe by which it was compiled. */
export function findPackaged(
  recipe: Recipe,
  platform: string,
  env?: NodeJS.ProcessEnv,
): { readonly path: string; readonly recipe: Recipe } | null
export function findRefusal(recipe: Recipe, platform: string, env?: NodeJS.ProcessEnv): string | null
export function libraryDirectory(recipe: Recipe, platform: string, env?: NodeJS.ProcessEnv): string
/** Paths of a recipe's own sources. */
export function ownSources(recipe: Recipe): string[]
/** Paths of the headers of them. */
export function ownHeaders(recipe: Recipe): string[]
export function libraryFile(recipe: Recipe, platform?: string): string
export function writeManifest(directory: string, recipe: Recipe, platform: string, refused: string | null): void
export function wantsOwnKernels(platform: string): boolean
export function cacheDirectory(env?: NodeJS.ProcessEnv): string
/** Of a file, in hexadecimal. */
export const MANIFEST_FILE: string

export function sha256(file: string): string
