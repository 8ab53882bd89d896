import { COLOUR_NAMES } from '../drawing.ts'
import type { Exhibit } from '../exhibit.ts'
import { type Finding, of } from '../finding.ts'
import type { Subject } from '../subject.ts'

/** A model passes if guessing does as well with at most this probability. */
const CHANCE_LIMIT = 0.01
const GOOD_SHARE = 0.75
const capital = (word: string) => word[0]!.toUpperCase() + word.slice(1)
/** Constrains the reply to a colour, if the engine can, so that the model's wording does not matter. */
const ANSWER = `(?:${COLOUR_NAMES.flatMap((name) => [name, capital(name)]).join('|')})\\.?`

const NAMED = new RegExp(COLOUR_NAMES.join('|'))

/** Whether the model sees: the colour of the one square, or circle, among other shapes. */
export async function checkSight(subject: Subject, exhibits: readonly Exhibit[]): Promise<Finding> {
  const check = 'images'
  if (subject.blindness !== null) return { check, verdict: 'skipped', finding: subject.blindness }
  const right = await Promise.all(
    exhibits.map(async ({ image, drawing: { target } }) => {
      const constraint = { type: 'regex', pattern: ANSWER, advisory: true } as const
      const text = `What colour is the ${target.kind}?`
      const [reply] = await subject.ask({ image, instruction: null, questions: [{ text, maxTokens: 16, constraint }] })
      return NAMED.exec(reply!.text.toLowerCase())?.[0] === target.colour
    }),
  )
  const count = right.filter(Boolean).length
  const chance = atLeast(count, exhibits.length, 1 / COLOUR_NAMES.length)
  const numbers = { right: count, asked: exhibits.length, chance }
  const names = `it names ${of(count, exhibits.length)} colours`
  if (chance > CHANCE_LIMIT) {
    const finding = `The model does not see: ${names}, and guessing does as well with p = ${chance.toFixed(2)}.`
    return { check, verdict: 'noise', finding, numbers }
  }
  const isGood = count >= GOOD_SHARE * exhibits.length
  return { check, verdict: isGood ? 'ok' : 'warning', finding: `The model sees: ${names} rightly.`, numbers }
}

/** The probability of at least `right` correct guesses. */
export function atLeast(right: number, asked: number, share: number): number {
  let sum = 0
  let ways = 1
  for (let k = 0; k <= asked; k++) {
    if (k > 0) ways = (ways * (asked - k + 1)) / k
    if (k >= right) sum += ways * share ** k * (1 - share) ** (asked - k)
  }
  return Math.min(1, sum)
}
