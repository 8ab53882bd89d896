import type { Reading } from './span-reader.ts'

const NAMES = ['point_box', 'point', 'polygon', 'clip', 'track', 'collection']
/** The beginning of a tag of the contract's markup: slash of a closing tag, name. */
export const TAG = /^<(\/?)(point_box|point|polygon|clip|track|collection)(?=[\s/>])/i
const NAME_START = /^<\/?([a-z_]*)$/i

export const PROSE: Reading = { type: 'prose' }
/** A tag that is no annotation. Written so that nobody takes it for one. */
export const STRAY: Reading = { type: 'prose', prose: '&lt;' }
/** A tag that may become an annotation. */
export const PARTIAL: Reading = { type: 'partial', prose: '&lt;' }
/** Perhaps the beginning of something, which may as well be prose. */
export const UNCLEAR: Reading = { type: 'partial' }

/** Reads a text that begins with `<` in a notation that has no tags: where it looks like markup, it is stray. */
export function readStrayTag(text: string): Reading {
  return TAG.test(text) ? STRAY : readNoTag(text)
}

/** Reads a text that begins with `<` and not with a tag of the markup, unless its name is still to come. */
export function readNoTag(text: string): Reading {
  const start = NAME_START.exec(text)?.[1]?.toLowerCase()
  return start !== undefined && NAMES.some((name) => name.startsWith(start)) ? UNCLEAR : PROSE
}
