import type { Fix, PrebuiltLibraries, Recipe } from './native-library.mjs'

/** Finds a working C++ compiler. @returns its command and leading arguments. */
export function findCompiler(): Promise<[command: string, ...args: string[]]>
/** Replaces what a recipe corrects in the source tree. @throws SetupError when a text is not there exactly once. */
export function applyFixes(
  recipe: { readonly what: string; readonly fixes?: readonly Fix[] },
  source: string,
): Promise<void>
/** Compiles one library. @param to what there is to compile it with, and where the result goes. */
export function compileLibrary(
  recipe: Recipe,
  to: {
    readonly compiler: readonly string[]
    readonly source: string
    readonly objects: string
    readonly output: string
    readonly prebuilt: PrebuiltLibraries
    readonly linkFlags?: readonly string[]
    /** Stands for what the compiled code depends on beside its source, its flags and its compiler. */
    readonly machine?: string
    readonly progress: (done: number, all: number) => void
  },
): Promise<void>
