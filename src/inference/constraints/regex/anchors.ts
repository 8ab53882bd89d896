import { PatternError, parseSyntax } from './parser.ts'
import {
  type AnchoredPattern,
  type Assertion,
  EMPTY,
  inOrder,
  isEmpty,
  joined,
  type Pattern,
  type Syntax,
} from './pattern.ts'

/** Maximum number of alternative beginnings of a sequence that differ in their anchors. */
const MOST_BEGINNINGS = 64

/** A sequence that is being parsed. */
interface Begun {
  start: boolean
  end: boolean
  readonly parts: Pattern[]
}

/**
 * Parses a pattern for whole texts: without lookaround, and with anchors only where a match begins or ends.
 * @throws PatternError
 */
export function parsePattern(source: string): Pattern {
  return joined(anchored(parseSyntax(source)).map(({ pattern }) => pattern))
}

/**
 * Patterns for a search, without conditions other than anchors at their ends: a text is found when one of the patterns
 * matches a part of it that begins and ends where its anchors require. Options with the same anchors are merged, so
 * there are at most four.
 * @throws PatternError for other conditions.
 */
export function anchored(syntax: Syntax): readonly AnchoredPattern[] {
  switch (syntax.type) {
    case 'character':
      return [free(syntax)]
    case 'assertion':
      return [edge(syntax)]
    case 'choice':
      return grouped(syntax.options.flatMap(anchored))
    case 'sequence':
      return sequence(syntax.parts)
    case 'repeat':
      return repeated(anchored(syntax.part), syntax)
  }
}

function grouped(options: readonly AnchoredPattern[]): readonly AnchoredPattern[] {
  const groups = Map.groupBy(options, ({ start, end }) => `${start} ${end}`)
  return [...groups.values()].map((group) => ({ ...group[0]!, pattern: joined(group.map(({ pattern }) => pattern)) }))
}

function edge(assertion: Assertion): AnchoredPattern {
  const { side, text, negated, name, at } = assertion
  const isEdge = !negated && text === EMPTY
  if (!isEdge) {
    const what = name.startsWith('(') ? `lookaround '${name}'` : `'${name}'`
    throw new PatternError(`${what} is not supported (at character ${at + 1})`)
  }
  return { start: side === 'before', end: side === 'after', pattern: EMPTY }
}

function sequence(parts: readonly Syntax[]): readonly AnchoredPattern[] {
  let begun: Begun[] = [{ start: false, end: false, parts: [] }]
  for (const part of parts) {
    const options = anchored(part)
    if (options.length > 1)
      begun = begun.flatMap((before) => options.map(() => ({ ...before, parts: [...before.parts] })))
    if (begun.length > MOST_BEGINNINGS) throw new PatternError('too many anchors in options')
    for (const [index, before] of begun.entries()) append(before, options[index % options.length]!)
  }
  return begun.map(({ parts, ...anchors }) => ({ ...anchors, pattern: inOrder(parts) }))
}

function append(before: Begun, { start, end, pattern }: AnchoredPattern): void {
  const astray = start && before.parts.length > 0 ? '^' : before.end && !isEmpty(pattern) ? '$' : null
  if (astray !== null) throw new PatternError(`'${astray}' is only supported at the ends of the pattern`)
  before.start ||= start
  before.end ||= end
  for (const part of pattern.type === 'sequence' ? pattern.parts : [pattern]) before.parts.push(part)
}

function repeated(
  part: readonly AnchoredPattern[],
  { min, max }: { readonly min: number; readonly max: number | null },
): readonly AnchoredPattern[] {
  if (part.every(({ start, end }) => !start && !end)) {
    return part.map(({ pattern }) => free({ type: 'repeat', part: pattern, min, max }))
  }
  if (min > 0 || max !== 1) throw new PatternError('an anchor within a repetition is not supported')
  return [free(EMPTY), ...part]
}

function free(pattern: Pattern): AnchoredPattern {
  return { start: false, end: false, pattern }
}
