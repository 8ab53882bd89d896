import type { PrefillCursor } from './prefill-cursor.ts'
import type { PrefillPace } from './prefill-pace.ts'
import type { Prefill } from './step.ts'

/** Maximum steps of a short prompt. */
const SHORT_STEPS = 4

/**
 * Decides which prompts the next step prefills; the batch builder calls it. Short and long prompts alternate: a short one
 * waits hardly longer than the current step, and any number of short ones cannot stop a long one. Short ones go in order of
 * their remaining rows. Long ones take turns, by organisation first. The oldest prompt always counts as a long one, so that
 * shorter ones cannot starve it.
 */
export class PrefillTurns {
  readonly #pace: PrefillPace
  #wasShort = false

  constructor(pace: PrefillPace) {
    this.#pace = pace
  }

  /** @param prefills oldest first. @returns the prompts for the step, in order. */
  next(prefills: readonly Prefill[]): readonly Prefill[] {
    // A step without prompts takes no turn.
    if (prefills.length === 0) return prefills
    const short = prefills.filter(({ cursor }) => this.#isShort(cursor))
    this.#wasShort = short.length > 0 && !this.#wasShort && prefills.length > 1
    short.sort((a, b) => a.cursor.remaining - b.cursor.remaining)
    if (this.#wasShort) return short
    const long = inTurn(prefills.filter((prefill, index) => index === 0 || !short.includes(prefill)))
    return [...long, ...short.filter((prefill) => !long.includes(prefill))]
  }

  /** Whether a prompt among these takes many steps. */
  hasLong(prefills: readonly Prefill[]): boolean {
    return prefills.some(({ cursor }) => !this.#isShort(cursor))
  }

  #isShort({ remaining, kvSequence }: PrefillCursor): boolean {
    return this.#pace.expectedMs(remaining, kvSequence.cells) <= SHORT_STEPS * this.#pace.stepMs
  }
}

/** The organisation that has waited longest comes first, and of its prompts the one that has waited longest. */
function inTurn(prefills: readonly Prefill[]): readonly Prefill[] {
  const lastSteps = new Map<string, number>()
  for (const { group, cursor } of prefills) {
    const { organisation } = group
    lastSteps.set(organisation, Math.max(cursor.lastTextStep, lastSteps.get(organisation) ?? 0))
  }
  const lastOf = ({ group }: Prefill) => lastSteps.get(group.organisation)!
  return prefills.toSorted((a, b) => lastOf(a) - lastOf(b) || a.cursor.lastTextStep - b.cursor.lastTextStep)
}
