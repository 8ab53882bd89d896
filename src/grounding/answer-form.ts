/** How a dialect's answer is parsed. Each character of the texts represents one byte. */
export interface AnswerForm {
  /**
   * Matches one object, or its part with the coordinates, which are the groups in the order of `numbers`. Global, with
   * indices.
   */
  readonly object: RegExp
  readonly numbers: readonly NumberForm[]
  /**
   * Whether the text after an object, or the text from the start of the answer if `isFirst`, says that another object
   * follows; null while undecided. Further text does not change a result that is not null.
   */
  goesOn(text: string, isFirst: boolean): boolean | null
}

/** How a coordinate is written. */
export interface NumberForm {
  readonly axis: 'x' | 'y'
  /** The maximum, which is the coordinate of the right or bottom edge. */
  readonly most: number
  /** Digits of every number, with leading zeros. If absent, as few as needed. */
  readonly digits?: number
  /** Maximum digits after the decimal point; none by default. */
  readonly decimals?: number
}

/** The pattern of a coordinate, as a group. A coordinate outside the picture may be negative. */
export const COORDINATE = '(-?\\d+(?:\\.\\d+)?)'

/** The coordinates of a point, or of a box that begins with the corner closest to the origin. */
export function numbersOf(kind: 'box' | 'point', axes: readonly [NumberForm, NumberForm]): readonly NumberForm[] {
  return kind === 'point' ? axes : [...axes, ...axes]
}

/** The forms of x and y, if both are written alike. */
export function alike(form: Omit<NumberForm, 'axis'>): readonly [NumberForm, NumberForm] {
  return [
    { axis: 'x', ...form },
    { axis: 'y', ...form },
  ]
}

/**
 * Matches lists of objects that each begin with a character, on a line of their own.
 * @param closes the text between an object's coordinates and its end; empty by default.
 */
export function linesGoOn(character: string, closes = ''): AnswerForm['goesOn'] {
  return (text, isFirst) => {
    // The last number may continue with further digits.
    const behind = isFirst ? text : text.replace(/^[\d.]+/, '')
    if (!isFirst && closes.startsWith(behind)) return null
    const rest = !isFirst && behind.startsWith(closes) ? behind.slice(closes.length) : behind
    const begun = rest.trimStart()
    if (begun !== '') return begun.startsWith(character)
    // Only an object is written on a new line.
    return rest === '' || isFirst ? null : true
  }
}
