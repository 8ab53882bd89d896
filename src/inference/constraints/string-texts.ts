import { getOrMake } from '../../lib/get-or-make.ts'
import type { Expression } from './grammar.ts'
import { Alphabet } from './regex/alphabet.ts'
import { anchored } from './regex/anchors.ts'
import { setOf } from './regex/code-points.ts'
import { characterSets, Determiniser } from './regex/determiniser.ts'
import { PatternError, parseSyntax } from './regex/parser.ts'
import {
  ANYTHING,
  type AnchoredPattern,
  inOrder,
  joined,
  lengthsOf,
  type Pattern,
  type Syntax,
} from './regex/pattern.ts'
import { searching, type TextLengths } from './regex/search.ts'
import {
  distancesToEnd,
  everything,
  intersection,
  type Limits,
  type StateMachine,
  TooManyStatesError,
  WorkBudget,
  withLengths,
} from './regex/state-machine.ts'
import { FORMATS } from './schema/formats.ts'
import { Unsatisfiable, UnsupportedConstraint } from './unsupported-constraint.ts'
import type { ValueText } from './value-text.ts'

/** The keywords of a JSON schema for one string; all must be satisfied. */
export interface StringKeywords {
  readonly patterns?: readonly string[]
  /** Patterns that must not match anywhere in the string. */
  readonly notPatterns?: readonly string[]
  /** Unknown formats have no effect. */
  readonly formats?: readonly string[]
  /** In characters, like `maxLength`. */
  readonly minLength?: number
  /** Null for no end. */
  readonly maxLength?: number | null
  /** Forbidden strings. */
  readonly excluded?: readonly string[]
}

type Keyword = 'pattern' | 'format' | 'minLength' | 'maxLength' | 'not'
type Path = readonly (string | number)[]

/** One keyword's condition on a text. */
interface Condition {
  readonly keyword: Keyword
  readonly match: Syntax
  /** Whether the pattern must match the whole text rather than a part of it. */
  readonly isWhole: boolean
  /** In characters, of the whole text; null for no end. */
  readonly maxLength: number | null
  readonly negated: boolean
}

/**
 * Maximum states of one string, which determine the size of the grammar. Each string gets a third of what is left for
 * all strings, but at least `FEWEST_STATES`.
 */
const MOST_STATES = 2_000
const MOST_STATES_IN_ALL = 6_000
const FEWEST_STATES = 300
/** Maximum states of intermediate machines. */
const MOST_STATES_BETWEEN = 10_000
/** Maximum steps for one string, and for all strings of a schema. */
const MOST_WORK = 1_000_000
const MOST_WORK_IN_ALL = 4_000_000
/** Longer texts are not written if the length is bounded. */
const LONGEST_TEXT = 10_000
/**
 * If the length is bounded, a match anywhere in a text is followed from each place where it may begin. That takes too
 * long if the lengths of its matches differ by more than this.
 */
const MOST_SLACK = 64

/**
 * Writes the strings of a schema. All keywords of a string are intersected into one machine, so that every text that
 * has begun can be completed. If that takes too many states, strings are shorter than `maxLength` allows.
 */
export class StringTexts {
  readonly #written = new Map<ValueText, Map<string, Expression>>()
  #statesLeft = MOST_STATES_IN_ALL
  #workLeft = MOST_WORK_IN_ALL

  /**
   * @param path of the schema, for errors.
   * @throws UnsupportedConstraint naming the keyword at fault.
   */
  write(keywords: StringKeywords, text: ValueText, path: Path): Expression {
    const written = getOrMake(this.#written, text, () => new Map<string, Expression>())
    const expression = getOrMake(written, JSON.stringify(keywords), () => this.#write(keywords, text, path))
    return expression
  }

  #write(keywords: StringKeywords, text: ValueText, path: Path): Expression {
    const { minLength: min = 0, maxLength = null } = keywords
    const max = maxLength === null ? null : Math.min(maxLength, Math.max(min, LONGEST_TEXT))
    if (maxLength !== null && maxLength < min) {
      throw new UnsupportedConstraint("'maxLength' is less than 'minLength'", [...path, 'maxLength'])
    }
    const conditions = conditionsOf(keywords, path)
    if (conditions.length === 0) return text.string(min, max)
    const counted =
      conditions.length === 1
        ? withCounts(alone(conditions[0]!, keywords), { anything: text.anything, min, max })
        : null
    const written = counted === null ? null : text.matching(counted)
    return written ?? this.#combined(conditions, { min, max }, text, path)
  }

  #combined(
    conditions: readonly Condition[],
    { min, max }: Omit<TextLengths, 'anything'>,
    text: ValueText,
    path: Path,
  ): Expression {
    const states = Math.max(FEWEST_STATES, Math.min(MOST_STATES, Math.ceil(this.#statesLeft / 3)))
    const budget = new WorkBudget(Math.min(MOST_WORK, this.#workLeft))
    const forbidden = text.forbidden.map((match) => ({
      ...{ keyword: conditions[0]!.keyword, match, isWhole: true, maxLength: null, negated: true },
    }))
    const all = [...conditions, ...forbidden]
    const alphabet = new Alphabet(all.flatMap(({ match }) => characterSets(match)))
    let { keyword } = conditions[0]!
    const beside = () => {
      const others = new Set(conditions.map((condition) => condition.keyword).filter((other) => other !== keyword))
      return others.size === 0 ? '' : ` beside ${Array.from(others, (other) => `'${other}'`).join(' and ')}`
    }
    const refusal = (reason: string) => new UnsupportedConstraint(reason + beside(), [...path, keyword])
    const noString = () => new Unsatisfiable(`no string satisfies '${keyword}'${beside()}`, [...path, keyword])
    try {
      let machine = everything(alphabet.classes.length)
      for (const condition of all) {
        keyword = condition.keyword
        machine = within(machine, condition, alphabet, { states: MOST_STATES_BETWEEN, budget })
        if (isEmpty(machine)) throw noString()
      }
      if (max !== null || min > 0) keyword = max === null ? 'minLength' : 'maxLength'
      const fitting = ofLengths(machine, min, max, { states, budget })
      if (isEmpty(fitting)) throw noString()
      this.#statesLeft -= fitting.accepting.length
      return text.accepted(fitting, alphabet)
    } catch (error) {
      if (error instanceof PatternError) throw refusal(error.message)
      if (error instanceof TooManyStatesError) throw refusal(`it takes too many states to keep '${keyword}'`)
      throw error
    } finally {
      this.#workLeft -= budget.spent
    }
  }
}

function conditionsOf(keywords: StringKeywords, path: Path): readonly Condition[] {
  const { patterns = [], notPatterns = [], formats = [], excluded = [] } = keywords
  const known = [...new Set(formats)].filter((format) => Object.hasOwn(FORMATS, format))
  const constants = excluded.map((constant) =>
    inOrder([...constant].map((character): Pattern => ({ type: 'character', set: setOf(character) }))),
  )
  const search = (keyword: Keyword, source: string, negated: boolean): Condition => ({
    ...{ keyword, negated, isWhole: false, maxLength: null },
    match: parsed(source, [...path, keyword]),
  })
  return [
    ...known.map((name): Condition => {
      const { pattern, uncounted = pattern, maxLength = null } = FORMATS[name]!
      return { keyword: 'format', negated: false, isWhole: true, maxLength, match: parseSyntax(uncounted) }
    }),
    ...Array.from(new Set(patterns), (source) => search('pattern', source, false)),
    ...Array.from(new Set(notPatterns), (source) => search('not', source, true)),
    ...(constants.length === 0
      ? []
      : [{ keyword: 'not', match: joined(constants), isWhole: true, maxLength: null, negated: true } as const]),
  ]
}

/** The form of a condition that is used if there are no others except for lengths. */
function alone(condition: Condition, { formats = [], maxLength = null }: StringKeywords): Condition {
  if (condition.keyword !== 'format') return condition
  const { pattern, counted = pattern } = FORMATS[formats.find((name) => Object.hasOwn(FORMATS, name))!]!
  return { ...condition, match: parseSyntax(maxLength === null ? pattern : counted) }
}

function parsed(source: string, path: Path): Syntax {
  try {
    return parseSyntax(source)
  } catch (error) {
    if (error instanceof PatternError) throw new UnsupportedConstraint(error.message, path)
    throw error
  }
}

/** The texts that satisfy one condition, with counts as numbers; null if that is not possible. */
function withCounts({ match, isWhole, negated }: Condition, texts: TextLengths): Pattern | null {
  if (negated) return null
  const counts = texts.min > 0 || texts.max !== null
  const patterns = anchoredOrNull(match)?.map((found) => {
    const { min, max } = lengthsOf(found.pattern)
    const ends = isWhole ? 2 : Number(found.start) + Number(found.end)
    if (counts && ends === 0 && max - min > MOST_SLACK) return null
    const pattern = searching(isWhole ? { ...found, start: true, end: true } : found, texts)
    return typeof pattern === 'string' ? null : pattern
  })
  return patterns?.every((pattern) => pattern !== null) ? joined(patterns) : null
}

/** Null if there are conditions other than anchors at the ends. */
function anchoredOrNull(match: Syntax): readonly AnchoredPattern[] | null {
  try {
    return anchored(match)
  } catch (error) {
    if (error instanceof PatternError) return null
    throw error
  }
}

/**
 * The texts of a machine that satisfy a condition. If a search takes too many states, only some of them: those that
 * begin with a match, and those with shorter repetitions.
 */
function within(
  machine: StateMachine,
  { match, isWhole, maxLength, negated }: Condition,
  alphabet: Alphabet,
  limits: Limits,
): StateMachine {
  const matching = (syntax: Syntax, within: Limits) =>
    intersection(machine, new Determiniser(syntax, alphabet, within), { ...within, negated })
  const texts = (...parts: Syntax[]): Syntax => ({ type: 'sequence', parts })
  if (isWhole) {
    const found = matching(match, limits)
    return maxLength === null ? found : withLengths(found, 0, maxLength, limits)
  }
  const search = texts(ANYTHING, match, ANYTHING)
  if (negated) return matching(search, limits)
  const tries = [
    search,
    texts(match, ANYTHING),
    texts(ANYTHING, withSmallerCounts(match, 32), ANYTHING),
    texts(withSmallerCounts(match, 16), ANYTHING),
  ]
  for (const syntax of tries) {
    const budget = limits.budget.share(1 / 3)
    try {
      return matching(syntax, { ...limits, budget })
    } catch (error) {
      if (!(error instanceof TooManyStatesError)) throw error
    } finally {
      limits.budget.spend(Math.min(budget.spent, limits.budget.left))
    }
  }
  throw new TooManyStatesError()
}

/** A subset of the texts: those with shorter repetitions. */
function withSmallerCounts(syntax: Syntax, most: number): Syntax {
  const inner = (part: Syntax) => withSmallerCounts(part, most)
  switch (syntax.type) {
    case 'character':
    case 'assertion':
      return syntax
    case 'sequence':
      return { ...syntax, parts: syntax.parts.map(inner) }
    case 'choice':
      return { ...syntax, options: syntax.options.map(inner) }
    case 'repeat': {
      const { min, max } = syntax
      return { ...syntax, part: inner(syntax.part), max: max === null ? null : Math.min(max, Math.max(min, most)) }
    }
  }
}

/** The accepted texts of the given lengths, or only the shorter ones if all of them take too many states. */
function ofLengths(machine: StateMachine, min: number, max: number | null, { states, budget }: Limits): StateMachine {
  const limits = { states: MOST_STATES_BETWEEN, budget }
  try {
    const exact = min === 0 && max === null ? machine : withLengths(machine, min, max, limits)
    if (exact.accepting.length <= states) return exact
  } catch (error) {
    if (!(error instanceof TooManyStatesError)) throw error
  }
  const longest = Math.floor(states / machine.accepting.length)
  if (longest < Math.max(min, distancesToEnd(machine)[0]!)) throw new TooManyStatesError()
  return withLengths(machine, min, Math.min(longest, max ?? longest), limits)
}

function isEmpty(machine: StateMachine): boolean {
  return machine.accepting.length === 0
}
