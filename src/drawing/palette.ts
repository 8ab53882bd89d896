/** Apart from each other in hue, and in lightness for those who see few hues. */
const FIRST = [
  '#ff3b30',
  '#0a84ff',
  '#30d158',
  '#ffd60a',
  '#bf5af2',
  '#ff9f0a',
  '#64d2ff',
  '#ff6fa8',
  '#a2845e',
  '#00a37a',
]
const GOLDEN_ANGLE = 137.508

export interface Colour {
  readonly fill: string
  /** Black or white, whichever can be read on the fill. */
  readonly text: string
}

/** One colour for each label, in the order in which the labels are asked for. */
export class Palette {
  readonly #colours = new Map<string, Colour>()

  of(label: string): Colour {
    const known = this.#colours.get(label)
    if (known) return known
    const place = this.#colours.size
    const fill = FIRST[place] ?? hslToHex((place * GOLDEN_ANGLE) % 360, 0.75, place % 2 === 0 ? 0.45 : 0.65)
    const colour = { fill, text: luminance(fill) > 0.3 ? '#000000' : '#ffffff' }
    this.#colours.set(label, colour)
    return colour
  }
}

/** Relative luminance, 0..1, as WCAG 2 defines it. */
function luminance(hex: string): number {
  const [r, g, b] = [1, 3, 5].map((at) => {
    const value = Number.parseInt(hex.slice(at, at + 2), 16) / 255
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4
  }) as [number, number, number]
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}

function hslToHex(hue: number, saturation: number, lightness: number): string {
  const channel = (offset: number) => {
    const k = (offset + hue / 30) % 12
    const value = lightness - saturation * Math.min(lightness, 1 - lightness) * Math.max(-1, Math.min(k - 3, 9 - k, 1))
    return Math.round(value * 255)
      .toString(16)
      .padStart(2, '0')
  }
  return `#${channel(0)}${channel(8)}${channel(4)}`
}
