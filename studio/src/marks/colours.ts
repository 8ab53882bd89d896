import { type Colour, Palette } from '../../../src/drawing/palette.ts'
import type { Mark, Role } from './mark.ts'

const palette = new Palette()

/** The colour of a label: one for each, the same over all turns and modes. */
export function colourOf(label: string): Colour {
  return palette.of(label.trim().toLowerCase())
}

/** In a comparison the outcome counts, not the label. */
export const ROLE_COLOURS: Readonly<Partial<Record<Role, Colour>>> = {
  matched: { fill: '#30b46c', text: '#000000' },
  missed: { fill: '#ff9f0a', text: '#000000' },
  extra: { fill: '#ff5a5f', text: '#000000' },
}

export function colourOfMark({ label, role }: Pick<Mark, 'label' | 'role'>): Colour {
  return (role && ROLE_COLOURS[role]) ?? colourOf(label)
}
