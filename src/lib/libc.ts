import { createRequire } from 'node:module'
import { lazy } from './lazy.ts'

/**
 * The C library that Node itself is linked to, and what calls into it, loaded on first use.
 * @throws Error when this platform's part of koffi is not installed.
 */
export const libc = lazy(() => {
  const koffi = createRequire(import.meta.url)('koffi') as typeof import('koffi')
  return { koffi, library: koffi.load(null) }
})
