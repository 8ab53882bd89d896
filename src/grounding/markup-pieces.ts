import type { Annotation } from './annotation.ts'
import { AnnotationScanner } from './annotation-scanner.ts'

/** The annotations of a text, and what stands between them as it is written. What does not parse is text. */
export function markupPieces(text: string): (string | Annotation)[] {
  const scanner = new AnnotationScanner()
  const pieces: (string | Annotation)[] = []
  let last = 0
  for (const { annotation, start, end } of [...scanner.push(text), ...scanner.end()]) {
    if (start > last) pieces.push(text.slice(last, start))
    pieces.push(annotation)
    last = end
  }
  if (last < text.length) pieces.push(text.slice(last))
  return pieces
}
