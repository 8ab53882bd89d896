/** How a dialect's answer is taken apart. Each character of its texts stands for one byte. */
export interface AnswerForm {
  /** One object, or what of it has the coordinates: they are the groups, as `numbers` lists them. Global, with indices. */
  readonly object: RegExp
  readonly numbers: readonly NumberForm[]
  /**
   * Whether the text from the end of an object, or at first from the start of the answer, says that another object comes;
   * null while it may be either. More text does not change an answer that is not null.
   */
  goesOn(text: string, isFirst: boolean): boolean | null
}

/** How a coordinate is written. */
export interface NumberForm {
  readonly axis: 'x' | 'y'
  /** The largest: that of the right or the bottom edge. */
  readonly most: number
  /** Digits of every number, with zeros in front. Left out: as few as it takes. */
  readonly digits?: number
  /** Most digits behind the point; none by default. */
  readonly decimals?: number
}

/** The pattern of a coordinate, as a group. One outside the picture may be negative. */
export const COORDINATE = '(-?\\d+(?:\\.\\d+)?)'

/** The coordinates of a point, or of a box with the corner that is nearest the origin first. */
export function numbersOf(kind: 'box' | 'point', axes: readonly [NumberForm, NumberForm]): readonly NumberForm[] {
  return kind === 'point' ? axes : [...axes, ...axes]
}

/** The forms of x and y, of which both are written alike. */
export function alike(form: Omit<NumberForm, 'axis'>): readonly [NumberForm, NumberForm] {
  return [
    { axis: 'x', ...form },
    { axis: 'y', ...form },
  ]
}

/**
 * Matches lists of objects that each begin with a character, on a line of their own.
 * @param closes what stands between an object's coordinates and its end; nothing by default.
 */
export function linesGoOn(character: string, closes = ''): AnswerForm['goesOn'] {
  return (text, isFirst) => {
    // The last number may have had further digits.
    const behind = isFirst ? text : text.replace(/^[\d.]+/, '')
    if (!isFirst && closes.startsWith(behind)) return null
    const rest = !isFirst && behind.startsWith(closes) ? behind.slice(closes.length) : behind
    const begun = rest.trimStart()
    if (begun !== '') return begun.startsWith(character)
    // Only an object is written on a new line.
    return rest === '' || isFirst ? null : true
  }
}
