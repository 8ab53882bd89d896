import { createRequire } from 'node:module'
import { lazy } from './lazy.ts'

/**
 * Stack size for calls into native libraries, in bytes. llama.cpp splits the texts of some vocabularies with
 * `std::regex`, which recurses for each character: with koffi's 128 KiB for calls on other threads, a word of 500
 * letters crashed the process. Only used pages take memory.
 */
const STACK_BYTES = 16 * 2 ** 20

/**
 * The library for calling native code, ready to load libraries.
 * @throws Error when this platform's part of koffi is not installed.
 */
export const ffi = lazy(() => {
  const koffi = createRequire(import.meta.url)('koffi') as typeof import('koffi')
  try {
    koffi.config({ ...koffi.config(), sync_stack_size: STACK_BYTES, async_stack_size: STACK_BYTES })
  } catch {
    // Another thread of this process has already configured it and loaded a library.
  }
  return koffi
})

/**
 * The C library that Node itself is linked to, with koffi, loaded on first use.
 * @throws Error when this platform's part of koffi is not installed.
 */
export const libc = lazy(() => {
  const koffi = ffi()
  return { koffi, library: koffi.load(null) }
})
