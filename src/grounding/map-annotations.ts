import type { Annotation } from './annotation.ts'
import { MarkupError, parseMarkup } from './markup-parser.ts'
import { formatAnnotation } from './markup-writer.ts'

/** No part of it can match beyond the next tag, so that the time to search a text grows with its length alone. */
const LEAF = '<(?:point_box|point|polygon)\\b[^<>]*>[^<>]*</(?:point_box|point|polygon)\\s*>|<clip\\b[^<>]*/>'
const ELEMENT = new RegExp(`<(track|collection)\\b[^<>]*>(?:\\s*(?:${LEAF}))*\\s*</\\1\\s*>|${LEAF}`, 'gi')

/** A text with other annotations in place of its own; null removes one. What does not parse stays as it is. */
export function mapAnnotations(text: string, change: (annotation: Annotation) => Annotation | null): string {
  return text.replace(ELEMENT, (markup) => {
    const annotation = parsed(markup)
    if (annotation === null) return markup
    const changed = change(annotation)
    return changed === null ? '' : formatAnnotation(changed)
  })
}

function parsed(markup: string): Annotation | null {
  try {
    const [only, ...others] = parseMarkup(markup)
    return only === undefined || only.kind === 'prose' || others.length > 0 ? null : only
  } catch (error) {
    if (error instanceof MarkupError) return null
    throw error
  }
}
