import type { Environment } from './config.ts'
import { nearestName } from './nearest-name.ts'
import { SETTINGS } from './settings.ts'

/** Read elsewhere: by the search for the configuration file, by commands that ask a server, by tests and by training. */
const OTHERS = /^LOOKOUT_(?:CONFIG$|URL$|TEST_|TRAINING_)/
const VARIABLES = SETTINGS.map(({ variable }) => variable)

/** One line for each variable that looks like a setting but is not: a misspelt one would otherwise go unnoticed. */
export function unknownSettings(environment: Environment): string[] {
  return Object.keys(environment)
    .filter((name) => name.startsWith('LOOKOUT_') && !VARIABLES.includes(name) && !OTHERS.test(name))
    .map((name) => {
      const nearest = nearestName(name, VARIABLES)
      return `${name} is not a setting and is ignored${nearest === null ? '' : `; did you mean ${nearest}?`}`
    })
}
