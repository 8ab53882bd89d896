import type { Annotation, Attributes, Leaf } from './annotation.ts'
import { AnnotationScanner } from './annotation-scanner.ts'
import type { Dialect, Scene } from './dialect.ts'

/** The annotations of a text, and the text between them as written. Invalid markup is text. */
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

/**
 * A text with its markup in a family's own notation. Annotations that the notation cannot express are left out; if
 * nothing remains, the text is the answer for "nothing found".
 * @param sceneOf returns the scene of a picture by index, or the last one for an annotation without an index.
 */
export function inNotation(
  text: string,
  { formats, detection }: Dialect,
  sceneOf: (asset: number | undefined) => Scene,
): string {
  const pieces = markupPieces(text)
  if (pieces.every((piece) => typeof piece === 'string')) return text
  let told = ''
  let leaves: Leaf[] = []
  const write = () => {
    if (leaves.length > 0) told += detection.answer(leaves, sceneOf(leaves[0]!.assetIdx))
    leaves = []
  }
  for (const [i, piece] of pieces.entries()) {
    if (typeof piece === 'string') {
      // Blanks between annotations are left to the notation.
      if (piece.trim() === '' && i > 0 && i < pieces.length - 1) continue
      write()
      told += piece
      continue
    }
    for (const leaf of leavesOf(piece)) {
      if (!formats.includes(leaf.kind === 'point_box' ? 'box' : leaf.kind)) continue
      if (leaves.length > 0 && leaves[0]!.assetIdx !== leaf.assetIdx) {
        write()
        told += '\n'
      }
      leaves.push(leaf)
    }
  }
  write()
  return told.trim() === '' ? detection.answer([], sceneOf(undefined)) : told
}

/** The leaves of an annotation, with the attributes that they inherit. */
function leavesOf(annotation: Annotation, inherited: Attributes = {}): Leaf[] {
  const { mention = inherited.mention, assetIdx = inherited.assetIdx } = annotation
  const own = { ...(mention === undefined ? {} : { mention }), ...(assetIdx === undefined ? {} : { assetIdx }) }
  switch (annotation.kind) {
    case 'clip':
      return []
    case 'track':
      return annotation.waypoints.flatMap((waypoint) => leavesOf(waypoint, own))
    case 'collection':
      return annotation.members.flatMap((member) => leavesOf(member, own))
    default:
      return [{ ...annotation, ...own }]
  }
}
