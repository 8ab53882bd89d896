import { escapePattern } from '../../grounding/dialect.ts'

/** A place as a model wrote it: four numbers for a box, two for a point. Their unit and order are unknown. */
export type NumberGroup = readonly [number, number] | readonly [number, number, number, number]

/** Numbers that stand alone. Digits within a word are part of a name: `bbox_2d`, `x1`. */
const NUMBER = /(?<![\p{L}\p{N}_.])-?\d+(?:\.\d+)?(?![\p{L}_]|\.\d)/gu
/** Tokens that are numbers: `<loc0123>`, `<123>`, `<bin_12>`. */
const NUMBER_TOKEN = /<[a-z_]*?(\d{1,4})>/g
/** A list of places, each after the number of an image or a time, and the number of an object. */
const NUMBERED = /\bcoords="[\d.]+ \d+ (\d+ \d+)[^"]*"/g
/** Words that may be between the numbers of one place, besides punctuation. */
const GAP_WORDS = [
  ...['x', 'y', 'w', 'h', 'xmin', 'xmax', 'ymin', 'ymax', 'min', 'max', 'left', 'right', 'top', 'bottom', 'width'],
  ...['height', 'center', 'centre', 'corner', 'upper', 'lower', 'and', 'to', 'px', 'pixels', 'is', 'at', 'the'],
  ...['box', 'point', 'start', 'end'],
]
const GAP = new RegExp(`^(?:[^\\p{L}\\p{N}.]|\\.(?!\\s)|(?<!\\p{L})(?:${GAP_WORDS.join('|')})_?\\d?(?!\\p{L}))*$`, 'iu')
const LONGEST_GAP = 40

/**
 * The first place in a model's text, in any notation: the first run of numbers with only punctuation and names of
 * coordinates in between. A run of an odd length is no place. Null when there is none.
 */
export function firstPlace(text: string): NumberGroup | null {
  const plain = text.replace(NUMBERED, '$1').replace(NUMBER_TOKEN, ' $1 ')
  let run: number[] = []
  let end = 0
  for (const match of plain.matchAll(NUMBER)) {
    const gap = plain.slice(end, match.index)
    if (run.length > 0 && (gap.length > LONGEST_GAP || !GAP.test(gap))) {
      const place = placeOf(run)
      if (place !== null) return place
      run = []
    }
    run.push(Number(match[0]))
    end = match.index + match[0].length
  }
  return placeOf(run)
}

/**
 * A pattern for texts like this one with other numbers in the same places, of at most four digits. The text between
 * them is matched literally.
 */
export function withOtherNumbers(text: string): string {
  const either = new RegExp(`${NUMBER_TOKEN.source}|${NUMBER.source}`, 'gu')
  let pattern = ''
  let end = 0
  for (const match of text.matchAll(either)) {
    pattern += escapePattern(text.slice(end, match.index))
    const [whole, digits] = match
    // A token has a fixed number of digits.
    if (digits !== undefined) pattern += escapePattern(whole).replace(digits, `[0-9]{${digits.length}}`)
    else pattern += whole.includes('.') ? decimalLike(whole) : '(?:0|[1-9][0-9]{0,3})'
    end = match.index + whole.length
  }
  return pattern + escapePattern(text.slice(end))
}

/** With at most this number of decimals. */
function decimalLike(number: string): string {
  const digits = number.length - number.indexOf('.') - 1
  return `[0-9]{1,3}(?:\\.[0-9]${digits > 1 ? `{1,${digits}}` : ''})?`
}

/** Several boxes in a list make a run of a multiple of four, several points one of two. */
function placeOf(run: readonly number[]): NumberGroup | null {
  const [a, b, c, d] = run
  if (run.length < 2 || run.length % 2 !== 0) return null
  return run.length % 4 === 0 ? [a!, b!, c!, d!] : [a!, b!]
}
