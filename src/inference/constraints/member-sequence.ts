import { choiceOrNull, EMPTY, type Expression, type GrammarBuilder, optional, repeat, sequence } from './grammar.ts'

export interface Member {
  readonly text: Expression
  readonly isRequired: boolean
}

interface Counts {
  readonly min: number
  /** Null for no end. */
  readonly max: number | null
}

/** Maximum number of rules of one sequence: one for each member and each relevant number of members before it. */
const MOST_RULES = 20_000
/** Maximum limit on the number of other members; a higher limit is lowered to this. */
const MOST_OTHERS = 1_000

/**
 * Members in their order, of which optional ones may be left out, and then any number of others.
 * @param others matches each of the others; null for none. All of them together count as one member towards `min`,
 * because they may be equal.
 * @returns null if no number of members satisfies the counts, or the counts cannot be enforced.
 */
export function memberSequence(
  members: readonly Member[],
  others: Expression | null,
  { min, max }: Counts,
  comma: Expression,
  builder: GrammarBuilder,
): Expression | null {
  if (min > members.length + (others === null ? 0 : 1)) return null
  const isOutOfReach = max !== null && max >= members.length + (others === null ? 0 : MOST_OTHERS)
  // Written members are counted only as far as the count makes a difference.
  const last = Math.max(1, Math.min(members.length, max === null || isOutOfReach ? min : max))
  if (members.length * last > MOST_RULES) return null
  const separated = (text: Expression, count: number) => (count === 0 ? text : sequence([comma, text]))
  let after: (Expression | null)[] = Array.from({ length: last + 1 }, (_, count) => {
    const isEnough = count >= min
    const left = max === null ? null : Math.min(max - count, MOST_OTHERS)
    if (others === null || left === 0) return isEnough ? EMPTY : null
    if (count + 1 < min) return null
    const more = repeat(sequence([comma, others]), 0, left === null ? null : left - 1)
    const some = sequence([separated(others, count), more])
    return builder.rule(isEnough ? optional(some) : some)
  })
  for (const { text, isRequired } of members.toReversed()) {
    const behind = after
    after = behind.map((skipped, count) => {
      const isFull = count === max
      const next = isFull ? null : (behind[Math.min(count + 1, last)] ?? null)
      const written = next === null ? null : sequence([separated(text, count), next])
      const options = choiceOrNull([written, isRequired ? null : skipped])
      return options && builder.rule(options)
    })
  }
  return after[0] ?? null
}
