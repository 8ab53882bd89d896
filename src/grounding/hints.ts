/**
 * Format hints: `<hint>BOX</hint>` in a system text asks for a kind of annotation or for reasoning, as
 * `vision_config` does. Several stand in one tag, parted by blanks: `<hint>BOX THINK</hint>`.
 */
export const HINTS = ['POINT', 'BOX', 'POLYGON', 'CLIP', 'THINK', 'FOCUS'] as const
export type Hint = (typeof HINTS)[number]

export type AnnotationFormat = 'point' | 'box' | 'polygon' | 'clip'

const FORMAT_HINTS = { point: 'POINT', box: 'BOX', polygon: 'POLYGON', clip: 'CLIP' } as const
const FORMAT_OF_HINT = { POINT: 'point', BOX: 'box', POLYGON: 'polygon', CLIP: 'clip' } as const

/** What hints stand between. */
export const HINT_MARKS = ['<hint>', '</hint>'] as const

const TAG = /<hint>([^<>]*)<\/hint>/gi

/**
 * Takes the hints out of a system text, wherever in it they stand: clients glue them to their instructions. A tag that
 * holds any other word is no hint and stays where it is.
 */
export function takeHints(text: string): { hints: Hint[]; rest: string } {
  const hints: Hint[] = []
  const rest = text.replace(TAG, (tag, body: string) => {
    const words = body.trim().toUpperCase().split(/\s+/)
    if (!words.every(isHint)) return tag
    hints.push(...words)
    return ''
  })
  return { hints, rest }
}

export function formatHint(format: AnnotationFormat): string {
  return `<hint>${FORMAT_HINTS[format]}</hint>`
}

/** The annotation format that a hint asks for; undefined for hints about something else. */
export function hintedFormat(hint: Hint): AnnotationFormat | undefined {
  return hint === 'THINK' || hint === 'FOCUS' ? undefined : FORMAT_OF_HINT[hint]
}

function isHint(word: string): word is Hint {
  return (HINTS as readonly string[]).includes(word)
}
