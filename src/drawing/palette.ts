/** Distinct in hue, and in lightness for people with colour blindness; visible on white and on black. */
const NAMED = {
  red: '#ff3b30',
  blue: '#0a84ff',
  green: '#30d158',
  yellow: '#e0b000',
  purple: '#bf5af2',
  orange: '#ff9f0a',
  cyan: '#2fb4e9',
  pink: '#ff6fa8',
  brown: '#a2845e',
  teal: '#00a37a',
}
const HUES: readonly string[] = Object.values(NAMED)
/** The colour of each word that names one, as matched by `[a-z]+`. */
const WORDS: ReadonlyMap<string, string> = new Map(
  Object.entries({
    ...NAMED,
    gold: NAMED.yellow,
    golden: NAMED.yellow,
    violet: NAMED.purple,
    magenta: NAMED.pink,
    turquoise: NAMED.teal,
    black: '#50555c',
    white: '#d9d9de',
    grey: '#8e8e93',
    gray: '#8e8e93',
  }),
)
/** Shades of a colour: how much black (negative) or white it is mixed with. */
const SHADES = [0, -0.25, 0.3, -0.45]
const GOLDEN_ANGLE = 137.508

export interface Colour {
  readonly fill: string
  /** Black or white, whichever is legible on the fill. */
  readonly text: string
}

/**
 * Assigns each label a permanent colour: a shade of the colour that the label names, or else the next one in order of
 * request.
 */
export class Palette {
  readonly #colours = new Map<string, Colour>()
  readonly #taken = new Set<string>()

  of(label: string): Colour {
    const known = this.#colours.get(label)
    if (known) return known
    const fill = [...shadesFor(label), ...HUES].find((one) => !this.#taken.has(one)) ?? this.#another()
    const colour = { fill, text: luminance(fill) > 0.3 ? '#000000' : '#ffffff' }
    this.#taken.add(fill)
    this.#colours.set(label, colour)
    return colour
  }

  #another(): string {
    for (let place = this.#colours.size; ; place++) {
      const fill = hslToHex((place * GOLDEN_ANGLE) % 360, 0.75, place % 2 === 0 ? 0.45 : 0.65)
      if (!this.#taken.has(fill)) return fill
    }
  }
}

function shadesFor(label: string): string[] {
  const words = label.toLowerCase().match(/[a-z]+/g) ?? []
  const named = words.flatMap((word) => WORDS.get(word) ?? [])[0]
  return named === undefined ? [] : SHADES.map((part) => mixed(named, part))
}

function mixed(hex: string, part: number): string {
  return toHex(channels(hex).map((value) => value + Math.abs(part) * ((part < 0 ? 0 : 1) - value)))
}

/** Relative luminance, 0..1, as WCAG 2 defines it. */
function luminance(hex: string): number {
  const [r, g, b] = channels(hex).map((value) =>
    value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4,
  ) as [number, number, number]
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}

function hslToHex(hue: number, saturation: number, lightness: number): string {
  return toHex(
    [0, 8, 4].map((offset) => {
      const k = (offset + hue / 30) % 12
      return lightness - saturation * Math.min(lightness, 1 - lightness) * Math.max(-1, Math.min(k - 3, 9 - k, 1))
    }),
  )
}

/** Red, green and blue, 0..1. */
function channels(hex: string): number[] {
  return [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16) / 255)
}

function toHex(values: readonly number[]): string {
  const two = (value: number) =>
    Math.round(value * 255)
      .toString(16)
      .padStart(2, '0')
  return `#${values.map(two).join('')}`
}
