import { getOrMake } from '../../../lib/get-or-make.ts'
import { isMultiple } from '../numbers/numbers.ts'
import { PatternError } from '../regex/parser.ts'
import { SearchMatcher } from '../regex/search-matcher.ts'
import { FORMATS } from './formats.ts'
import {
  type Conjunction,
  isIn,
  isObject,
  isOfTypes,
  itemParts,
  memberParts,
  type Plain,
  type Source,
} from './schema-conjunction.ts'

/** Checks whether a value satisfies the options of a schema. */
export class ValueCheck {
  readonly #optionsOf: (parts: Conjunction) => readonly Plain[]
  readonly #isLenient: boolean
  readonly #matchers = new Map<string, SearchMatcher | null>()

  /** @param isLenient whether unsupported patterns and formats match all texts. */
  constructor(optionsOf: (parts: Conjunction) => readonly Plain[], isLenient: boolean) {
    this.#optionsOf = optionsOf
    this.#isLenient = isLenient
  }

  /** Whether a value satisfies one of the options of the parts. */
  allows(value: unknown, parts: Conjunction): boolean {
    return this.#optionsOf(parts).some((plain) => this.fits(value, plain))
  }

  /** Whether a value satisfies all conditions of an option, its constants included. */
  fits(value: unknown, plain: Plain): boolean {
    if (plain.types !== undefined && !isOfTypes(value, plain.types)) return false
    if (plain.enum !== undefined && !isIn(value, plain.enum)) return false
    if (isIn(value, plain.excluded)) return false
    const { bounds = {} } = plain
    const isWithin = (count: number, min = 0, max = Number.POSITIVE_INFINITY) => count >= min && count <= max
    if (typeof value === 'number') {
      return (
        isWithin(value, bounds.minimum ?? Number.NEGATIVE_INFINITY, bounds.maximum) &&
        value > (bounds.exclusiveMinimum ?? Number.NEGATIVE_INFINITY) &&
        value < (bounds.exclusiveMaximum ?? Number.POSITIVE_INFINITY) &&
        (plain.multiples ?? []).every((multiple) => isMultiple(value, multiple.value))
      )
    }
    if (typeof value === 'string')
      return isWithin([...value].length, bounds.minLength, bounds.maxLength) && this.#hasText(value, plain)
    if (Array.isArray(value)) {
      return (
        isWithin(value.length, bounds.minItems, bounds.maxItems) &&
        (!plain.uniqueItems || value.every((item, at) => !isIn(item, value.slice(0, at)))) &&
        value.every((item, at) => this.allows(item, itemParts(plain, at))) &&
        (plain.contains ?? []).every(({ part, min, max }) => {
          const others = { ...part, negated: !part.negated }
          return (
            value.filter((item) => this.allows(item, [part])).length >= min &&
            (max === null || value.filter((item) => !this.allows(item, [others])).length <= max)
          )
        })
      )
    }
    if (!isObject(value)) return true
    const names = Object.keys(value)
    return (
      (this.#isLenient || this.hasKnownPatterns(plain)) &&
      isWithin(names.length, bounds.minProperties, bounds.maxProperties) &&
      (plain.required ?? []).every((name) => Object.hasOwn(value, name)) &&
      names.every((name) => plain.names === undefined || this.allows(name, plain.names)) &&
      names.every((name) => this.allows(value[name], this.memberParts(plain, name)))
    )
  }

  memberParts(plain: Plain, name: string): Conjunction {
    return memberParts(plain, name, (source, text) => this.matches(source, text) ?? true)
  }

  /** Whether a pattern matches somewhere in a text; null if the pattern is not supported. */
  matches(source: string, text: string): boolean | null {
    return getOrMake(this.#matchers, source, () => matcherOf(source))?.test(text) ?? null
  }

  /** Whether it is known which members each pattern applies to. */
  hasKnownPatterns({ objects = [] }: Plain): boolean {
    return objects.every(({ patterns }) => patterns.every(({ source }) => this.matches(source, '') !== null))
  }

  #hasText(value: string, { patterns = [], notPatterns = [], formats = [] }: Plain): boolean {
    return (
      patterns.every((pattern) => this.matches(pattern.value, value) ?? this.#isLenient) &&
      notPatterns.every((pattern) => !(this.matches(pattern.value, value) ?? !this.#isLenient)) &&
      formats.every((format) => this.#isLenient || isOfFormat(value, format.value))
    )
  }

  /** Whether a scalar may satisfy an option: validators differ in what they accept as a format. */
  mayFit(value: unknown, plain: Plain): boolean {
    const isKnown = ({ value: source }: Source<string>) => this.matches(source, '') !== null
    const { patterns = [], notPatterns = [] } = plain
    const known = { patterns: patterns.filter(isKnown), notPatterns: notPatterns.filter(isKnown), formats: [] }
    return this.fits(value, { ...plain, ...known })
  }
}

function matcherOf(source: string): SearchMatcher | null {
  try {
    return new SearchMatcher(source)
  } catch (error) {
    if (error instanceof PatternError) return null
    throw error
  }
}

const formats = new Map<string, SearchMatcher>()

function isOfFormat(text: string, format: string): boolean {
  const matcher = formats.get(format) ?? new SearchMatcher(`^(?:${FORMATS[format]!.pattern})$`)
  formats.set(format, matcher)
  return matcher.test(text)
}
