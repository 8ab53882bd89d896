import { type Colour, Palette } from '../../../src/drawing/palette.ts'

const palette = new Palette()

/** The colour of a label: one for each, the same over all turns and modes. */
export function colourOf(label: string): Colour {
  return palette.of(label.trim().toLowerCase())
}
