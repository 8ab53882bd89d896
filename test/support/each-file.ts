import fc from 'fast-check'
import { afterAll, vi } from 'vitest'

/**
 * Continuous integration uses a fixed seed, so that results depend only on the change. Elsewhere each run draws new
 * cases.
 */
if (process.env.CI) fc.configureGlobal({ seed: 20_261_121 })

/** The next file of a worker may begin in the same process before its first test, which is when Vitest would do this. */
afterAll(() => {
  vi.unstubAllEnvs()
})
