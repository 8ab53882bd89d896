import { FORMATS } from './formats.ts'
import type { Expression } from './grammar.ts'
import type { Refuse } from './keyword-reader.ts'
import { PatternError, parseAnchored } from './regex/parser.ts'
import { joined } from './regex/pattern.ts'
import { searching } from './regex/search.ts'
import type { Path, Plain } from './schema-conjunction.ts'
import type { ValueText } from './value-text.ts'

/** Longer strings than this are not asked for, nor written where a schema bounds their length. */
const LONGEST_STRING = 10_000

/** Strings that an option allows. Null where it allows none, for which `nothing` has the reason. */
export function stringText(
  plain: Plain,
  text: ValueText,
  refuse: Refuse,
  nothing: (message: string, path: Path) => null,
): Expression | null {
  const { bounds = {}, where = {}, patterns = [], formats = [], notPatterns = [], excluded = [] } = plain
  const min = bounds.minLength ?? 0
  const max = bounds.maxLength === undefined ? null : Math.min(bounds.maxLength, LONGEST_STRING)
  if (max !== null && max < min) return nothing("'maxLength' is less than 'minLength'", where.maxLength ?? [])
  if (min > LONGEST_STRING) {
    refuse(`${min} is more than the ${LONGEST_STRING} that are supported`, where.minLength ?? [])
    return text.string(0, null)
  }
  const sources = [
    ...patterns.map(({ value, path }) => ({ source: value, path, keyword: 'pattern' })),
    ...formats.map(({ value, path }) => ({ source: `^(?:${FORMATS[value]})$`, path, keyword: 'format' })),
  ]
  const [first, second] = sources
  if (notPatterns.length > 0) refuse('strings that do not match a pattern are not supported', notPatterns[0]!.path)
  if (excluded.length > 0) refuse('strings other than some are not supported', where.not ?? [])
  if (second !== undefined) refuse(`'${second.keyword}' beside '${first!.keyword}' is not supported`, second.path)
  if (first === undefined) return text.string(min, max)
  const texts = { anything: text.anything, min, max }
  try {
    const found = parseAnchored(first.source).map((anchored) => searching(anchored, texts))
    const bad = found.find((pattern) => typeof pattern === 'string')
    if (bad !== undefined) {
      refuse(`'${bad}' is only supported beside '${first.keyword}' when every match fits it`, where[bad] ?? [])
      return stringText({ patterns, formats }, text, refuse, nothing)
    }
    const matching = text.matching(joined(found.filter((pattern) => typeof pattern === 'object')))
    if (matching !== null) return matching
    refuse('a match may hold what no string holds in this notation', first.path)
  } catch (error) {
    if (!(error instanceof PatternError)) throw error
    refuse(error.message, first.path)
  }
  return text.string(min, max)
}
