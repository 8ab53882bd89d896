import fc from 'fast-check'

/** Continuous integration draws the same cases every time, so that it judges the change; at the desk each run draws new ones. */
if (process.env.CI) fc.configureGlobal({ seed: 20_261_121 })
