export type { Annotation, Clip, Collection, GridPoint, Leaf, LeafKind, Prose, Track } from './annotation.ts'
export { AnnotationScanner, type PlacedAnnotation } from './annotation-scanner.ts'
export { type Assets, assetsFor, withAsset } from './assets.ts'
export {
  type AnnotationReader,
  type DetectionKind,
  type Dialect,
  escapePattern,
  type Scene,
  type TagRules,
  type TimeSpan,
} from './dialect.ts'
export { DIALECTS, type DialectName } from './dialects/index.ts'
export { freeMarkupReader } from './dialects/markup.ts'
export { type AnnotationFormat, formatHint, HINT_MARKS, type Hint, hintedFormat, takeHints } from './hints.ts'
export { MarkupError, type MarkupErrorCode, parseMarkup } from './markup-parser.ts'
export { markupPieces } from './markup-pieces.ts'
export { formatAnnotation, formatClip, formatLeaf, formatPiece } from './markup-writer.ts'
