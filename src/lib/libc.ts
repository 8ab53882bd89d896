import { createRequire } from 'node:module'
import type { LibraryHandle } from 'koffi'

type Koffi = typeof import('koffi')

/** The C library that Node itself is linked to, and what calls into it. */
export interface CLibrary {
  readonly koffi: Koffi
  readonly library: LibraryHandle
}

let loaded: CLibrary | null = null

/** Loads it on first use. @throws Error when this platform's part of koffi is not installed. */
export function libc(): CLibrary {
  if (loaded === null) {
    const koffi = createRequire(import.meta.url)('koffi') as Koffi
    loaded = { koffi, library: koffi.load(null) }
  }
  return loaded
}
