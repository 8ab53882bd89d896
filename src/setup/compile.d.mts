/** Finds a working C++ compiler. @returns its command and leading arguments. */
export function findCompiler(): Promise<[command: string, ...args: string[]]>
export interface Fix {
  /** Relative to the source tree. */
  readonly file: string
  readonly text: string
  readonly by: string
}
/** Replaces what a recipe corrects in the source tree. @throws SetupError when a text is not there exactly once. */
export function applyFixes(
  recipe: { readonly what: string; readonly fixes?: readonly Fix[] },
  source: string,
): Promise<void>
