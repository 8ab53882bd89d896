import type { Environment } from './config.ts'
import { nearestName } from './nearest-name.ts'
import { SETTINGS } from './settings.ts'

/**
 * Read elsewhere: by the search for the configuration file, by commands that call a server, by tests and by training.
 */
const OTHERS = /^LOOKOUT_(?:CONFIG$|URL$|TEST_|TRAINING_)/
const VARIABLES = SETTINGS.map(({ variable }) => variable)

/** One line for each setting that still has quotes. Docker passes them on from its env files. */
export function quotedSettings(environment: Environment): string[] {
  return VARIABLES.filter((name) => /^(["']).*\1$/s.test(environment[name] ?? '')).map(
    (name) => `${name} has quotes around its value, which are taken as part of it`,
  )
}

/** One line for each variable that looks like a setting but is none: otherwise a misspelt one would go unnoticed. */
export function unknownSettings(environment: Environment): string[] {
  return Object.keys(environment)
    .filter((name) => name.startsWith('LOOKOUT_') && !VARIABLES.includes(name) && !OTHERS.test(name))
    .map((name) => {
      const plain = name.slice('LOOKOUT_'.length)
      const nearest = VARIABLES.includes(plain) ? plain : nearestName(name, VARIABLES)
      return `${name} is not a setting and is ignored${nearest === null ? '' : `; did you mean ${nearest}?`}`
    })
}
