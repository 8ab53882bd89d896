import fc from 'fast-check'

/**
 * Continuous integration uses a fixed seed, so that results depend only on the change. Elsewhere each run draws new
 * cases.
 */
if (process.env.CI) fc.configureGlobal({ seed: 20_261_121 })
