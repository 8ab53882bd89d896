export interface Wheel {
  /** Of the package. */
  readonly name: string
  readonly version: string
  /** The wheel's name. */
  readonly file: string
  /** In hexadecimal. */
  readonly sha256: string
}
type Get = typeof fetch
/** The command that puts the files of wheels into a folder. */
export function commandFor(wheels: readonly Wheel[], folder: string): string
/** Downloads a wheel into a folder. @returns its path. @throws SetupError */
export function fetchWheel(
  wheel: Wheel,
  folder: string,
  options?: {
    /** PIP_INDEX_URL names another index than PyPI's. */
    readonly env?: NodeJS.ProcessEnv
    /** Is called with the number of bytes that are there, and of all. */
    readonly progress?: (done: number, all: number) => void
    readonly get?: Get | undefined
  },
): Promise<string>
/**
 * Unpacks files of a zip file.
 * @param place the path below `folder` for a name in the zip file; null leaves that file out.
 * @throws SetupError when it is no zip file, or a name leads out of the folder.
 */
export function unpackWheel(path: string, folder: string, place?: (name: string) => string | null): Promise<void>
