import type { PrefillCursor } from './prefill-cursor.ts'
import type { PrefillPace } from './prefill-pace.ts'
import type { Sequence } from './sequence.ts'
import type { SequenceGroup } from './sequence-group.ts'

/** A prompt, or other text that is known beforehand, that is being prefilled. */
export interface Prefill {
  readonly feed: PrefillCursor
  readonly request: SequenceGroup
  /** Whose first token follows it; null for a stem. */
  readonly completion: Sequence | null
}

/** A prompt that takes no more steps than this is short. */
const SHORT_STEPS = 4

/**
 * Decides whose prompt the next step is for. Short prompts and long ones get every other step: so a short one waits for
 * hardly more than the step under way, and a long one gets on however many short ones come. Short ones go in order of
 * what they still need; long ones take turns, by organisation first. The oldest takes its turn with the long ones, so
 * that shorter ones cannot hold it up for ever.
 */
export class PrefillTurns {
  readonly #pace: PrefillPace
  #wasShort = false

  constructor(pace: PrefillPace) {
    this.#pace = pace
  }

  /** @param prefills oldest first. @returns those to fill the step with, the first one first. */
  next(prefills: readonly Prefill[]): readonly Prefill[] {
    // A step that computes no prompt is nobody's turn.
    if (prefills.length === 0) return prefills
    const short = prefills.filter(({ feed }) => this.#isShort(feed))
    this.#wasShort = short.length > 0 && !this.#wasShort && prefills.length > 1
    short.sort((a, b) => a.feed.remaining - b.feed.remaining)
    if (this.#wasShort) return short
    const long = inTurn(prefills.filter((prefill, index) => index === 0 || !short.includes(prefill)))
    return [...long, ...short.filter((prefill) => !long.includes(prefill))]
  }

  /** Whether a prompt among these takes many steps. */
  hasLong(prefills: readonly Prefill[]): boolean {
    return prefills.some(({ feed }) => !this.#isShort(feed))
  }

  #isShort({ remaining, sequence }: PrefillCursor): boolean {
    return this.#pace.expectedMs(remaining, sequence.cells) <= SHORT_STEPS * this.#pace.stepMs
  }
}

/** The organisation that has waited longest first, and of its prompts the one that has. */
function inTurn(prefills: readonly Prefill[]): readonly Prefill[] {
  const lastSteps = new Map<string, number>()
  for (const { request, feed } of prefills) {
    const { organisation } = request
    lastSteps.set(organisation, Math.max(feed.lastTextStep, lastSteps.get(organisation) ?? 0))
  }
  const lastOf = ({ request }: Prefill) => lastSteps.get(request.organisation)!
  return prefills.toSorted((a, b) => lastOf(a) - lastOf(b) || a.feed.lastTextStep - b.feed.lastTextStep)
}
