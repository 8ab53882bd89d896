import { type Environment, SETTING_NAMES } from './config.ts'

/** Read elsewhere: by the search for the configuration file, by tests and by training. */
const OTHERS = /^LOOKOUT_(?:CONFIG$|TEST_|TRAINING_)/
/** More typing mistakes than these make another word. */
const MOST_EDITS = 3

/** One line for each variable that looks like a setting and is none: a misspelt one would otherwise do nothing, unseen. */
export function unknownSettings(environment: Environment): string[] {
  return Object.keys(environment)
    .filter((name) => name.startsWith('LOOKOUT_') && !SETTING_NAMES.includes(name) && !OTHERS.test(name))
    .map((name) => {
      const nearest = nearestName(name)
      return `${name} is no setting and is ignored${nearest === null ? '' : `; did you mean ${nearest}?`}`
    })
}

function nearestName(name: string): string | null {
  const [nearest] = SETTING_NAMES.map((known) => ({ known, edits: editDistance(name, known) })).sort(
    (a, b) => a.edits - b.edits,
  )
  return nearest !== undefined && nearest.edits <= MOST_EDITS ? nearest.known : null
}

/** Characters to insert, delete or replace (Levenshtein). */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const replaced = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(replaced, row[j]! + 1, next[j - 1]! + 1))
    }
    row = next
  }
  return row[b.length]!
}
