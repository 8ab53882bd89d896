import { createRequire } from 'node:module'
import { lazy } from './lazy.ts'

/**
 * Stack of calls into native libraries, in bytes. llama.cpp splits the texts of some vocabularies by `std::regex`, which recurses
 * with each character: with koffi's 128 KiB for calls on other threads, a word of 500 letters ended the process. Only the pages
 * that are used take memory.
 */
const STACK_BYTES = 16 * 2 ** 20

/**
 * What calls native libraries, ready to load them.
 * @throws Error when this platform's part of koffi is not installed.
 */
export const ffi = lazy(() => {
  const koffi = createRequire(import.meta.url)('koffi') as typeof import('koffi')
  try {
    koffi.config({ ...koffi.config(), sync_stack_size: STACK_BYTES, async_stack_size: STACK_BYTES })
  } catch {
    // Another thread of this process has done so, and has loaded a library since.
  }
  return koffi
})

/**
 * The C library that Node itself is linked to, and what calls into it, loaded on first use.
 * @throws Error when this platform's part of koffi is not installed.
 */
export const libc = lazy(() => {
  const koffi = ffi()
  return { koffi, library: koffi.load(null) }
})
