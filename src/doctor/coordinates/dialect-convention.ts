import type { Leaf } from '../../grounding/annotation.ts'
import type { DetectionKind, Scene } from '../../grounding/dialect.ts'
import { DIALECTS, type DialectName } from '../../grounding/dialects/dialects.ts'
import { type Box, type Convention, centreOf, type Frame, type Point } from './convention.ts'
import { type Answer, fitConventions } from './fit.ts'
import { firstPlace, withOtherNumbers } from './number-groups.ts'

/** Images of different shapes, whose sides are far from any grid's. */
const FRAMES: readonly Frame[] = [
  [640, 400],
  [380, 700],
  [500, 520],
].map(([width, height]) => ({
  original: { width: width! * 3, height: height! * 3 },
  resized: { width: width!, height: height! },
  patches: { width: width! / 10, height: height! / 10 },
}))
const PLACES = [0.1, 0.3, 0.45, 0.6]

/** What a dialect asks for: boxes if it has them, otherwise points. Null for one without either. */
export function detectionKind(name: DialectName): DetectionKind | null {
  const formats: readonly string[] = DIALECTS[name].formats
  return formats.includes('box') ? 'box' : formats.includes('point') ? 'point' : null
}

/**
 * The convention of a dialect, measured like that of a model, on known places that the dialect writes. Null for a
 * dialect whose answers hold no numbers.
 */
export function conventionOf(name: DialectName): Convention | null {
  const kind = detectionKind(name)
  if (kind === null) return null
  const answers = FRAMES.flatMap((frame) =>
    PLACES.map((x, i): Answer | null => {
      const y = PLACES[(i * 3 + 1) % PLACES.length]!
      const target = { from: { x, y }, to: { x: x + 0.2, y: y + 0.3 } }
      const leaf = leafOf(target, kind, 'square')
      const numbers = firstPlace(DIALECTS[name].detection.answer([leaf], sceneOf(frame)))
      return numbers === null ? null : { numbers, frame, target }
    }),
  ).filter((answer) => answer !== null)
  const { verdict, best } = fitConventions(answers)
  return verdict === 'fits' || verdict === 'ambiguous' ? best : null
}

/** Dialects with a wanted convention. */
export function dialectsWith(isWanted: (convention: Convention) => boolean): DialectName[] {
  return (Object.keys(DIALECTS) as DialectName[]).filter((name) => {
    const convention = conventionOf(name)
    return convention !== null && isWanted(convention)
  })
}

/**
 * A pattern for one place in the dialect's notation, with any numbers: unlike the dialect's own pattern, it allows any
 * unit.
 * @param label has no digits.
 */
export function placePattern(name: DialectName, label: string, frame: Frame): string {
  const box = { from: { x: 0.234, y: 0.345 }, to: { x: 0.456, y: 0.567 } }
  const leaf = leafOf(box, detectionKind(name)!, label)
  return withOtherNumbers(DIALECTS[name].detection.answer([leaf], sceneOf(frame)))
}

/** Where the dialect's reader finds the first place in a reply; null when it finds none. */
export function readBy(name: DialectName, text: string, frame: Frame): Box | null {
  const reader = DIALECTS[name].reader(sceneOf(frame))
  const pieces = [...reader.push(text), ...reader.end(false)]
  const leaf = pieces.find((piece): piece is Leaf => piece.kind === 'point' || piece.kind === 'point_box')
  if (leaf === undefined) return null
  const [from, to] = leaf.points.map(({ x, y }): Point => ({ x: x / 1000, y: y / 1000 }))
  return { from: from!, to: to ?? from! }
}

function sceneOf({ resized }: Frame): Scene {
  return { assets: 1, timed: false, image: resized }
}

function leafOf(box: Box, kind: DetectionKind, mention: string): Leaf {
  const grid = ({ x, y }: Point) => ({ x: Math.round(x * 1000), y: Math.round(y * 1000) })
  const points = kind === 'box' ? [grid(box.from), grid(box.to)] : [grid(centreOf(box))]
  return { kind: kind === 'box' ? 'point_box' : 'point', mention, points }
}
