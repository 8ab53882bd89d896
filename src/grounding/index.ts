export type { Annotation, Clip, Collection, GridPoint, Leaf, LeafKind, Prose, Track } from './annotation.ts'
export { type AnnotationFormat, formatHint, type Hint, hintedFormat, takeHints } from './hints.ts'
export { MarkupError, type MarkupErrorCode, parseMarkup } from './markup-parser.ts'
export { formatAnnotation, formatClip, formatLeaf } from './markup-writer.ts'
