/**
 * Format hints: `<hint>BOX</hint>` in a system message asks for an annotation format or for reasoning, like
 * `vision_config`. One tag may hold several, separated by spaces: `<hint>BOX THINK</hint>`.
 */
const HINTS = ['POINT', 'BOX', 'POLYGON', 'CLIP', 'THINK', 'FOCUS'] as const
export type Hint = (typeof HINTS)[number]

export type AnnotationFormat = 'point' | 'box' | 'polygon' | 'clip'

/** The tags around hints. */
export const HINT_MARKS = ['<hint>', '</hint>'] as const

const TAG = /<hint>([^<>]*)<\/hint>/gi

/**
 * Removes the hints from a system text. They may be anywhere in it, because clients join them to their instructions
 * without a separator. A tag with any other word is not a hint and remains in the text.
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
  return `<hint>${format.toUpperCase()}</hint>`
}

/** The annotation format that a hint requests; undefined for other hints. */
export function hintedFormat(hint: Hint): AnnotationFormat | undefined {
  return hint === 'THINK' || hint === 'FOCUS' ? undefined : (hint.toLowerCase() as Lowercase<typeof hint>)
}

function isHint(word: string): word is Hint {
  return (HINTS as readonly string[]).includes(word)
}
