import type { Annotation } from './annotation.ts'
import { parseAnnotation } from './markup-parser.ts'

/** No part of it can match beyond the next tag, so that the time to search a text grows with its length alone. */
const LEAF = '<(?:point_box|point|polygon)\\b[^<>]*>[^<>]*</(?:point_box|point|polygon)\\s*>|<clip\\b[^<>]*/>'
const ELEMENT = new RegExp(`<(track|collection)\\b[^<>]*>(?:\\s*(?:${LEAF}))*\\s*</\\1\\s*>|${LEAF}`, 'gi')

/** The annotations of a text, and what stands between them as it is written. What does not parse is text. */
export function markupPieces(text: string): (string | Annotation)[] {
  const pieces: (string | Annotation)[] = []
  let end = 0
  for (const match of text.matchAll(ELEMENT)) {
    const annotation = parseAnnotation(match[0])
    if (annotation === null) continue
    if (match.index > end) pieces.push(text.slice(end, match.index))
    pieces.push(annotation)
    end = match.index + match[0].length
  }
  if (end < text.length) pieces.push(text.slice(end))
  return pieces
}
