import { basename } from 'node:path'
import { ConfigError } from '../../config/config.ts'
import type { Palette } from '../../drawing/palette.ts'
import type { Input } from '../asking/inputs.ts'
import { isPicture, type Medium, type Picture } from '../asking/media.ts'
import { marksOn, type ReplyAnnotation } from '../asking/reply-annotations.ts'
import { note } from '../asking/screen.ts'
import { type Drawing, keepOriginals, planDrawings, type Target, writeWhole } from '../asking/targets.ts'

/** The media of one question. */
export type Question = Input<readonly Medium[]>

/** Where each picture of a question is drawn. */
export type DrawingPlan = (
  index: number,
  media: readonly Medium[],
) => readonly (Drawing & { readonly medium: Picture })[]

export async function planDrawing(
  target: Target,
  questions: readonly Question[],
  isFolder: boolean,
): Promise<DrawingPlan> {
  if (target.kind === 'data')
    throw new ConfigError('-o: expected a picture or a folder; --json prints the reply as JSON')
  if (isFolder) {
    const names = questions.map(({ name }) => name)
    const drawings = await besideOriginals(planDrawings(target, names, true), names)
    return (index, media) => media.filter(isPicture).map((medium) => ({ medium, ...drawings[index]! }))
  }
  const pictures = (await questions[0]!.open()).filter(isPicture)
  if (pictures.length === 0) throw new ConfigError('-o draws on pictures, but there is none')
  const names = pictures.map(({ name }) => name)
  const drawings = await besideOriginals(planDrawings(target, names), names)
  return () => pictures.map((medium, index) => ({ medium, ...drawings[index]! }))
}

async function besideOriginals(drawings: readonly Drawing[], pictures: readonly string[]) {
  const paths = drawings.map(({ path }) => path)
  await keepOriginals(paths, pictures)
  return drawings
}

export async function draw(
  media: readonly Medium[],
  annotations: readonly ReplyAnnotation[],
  drawings: ReturnType<DrawingPlan>,
  palette: Palette,
): Promise<void> {
  for (const { medium, path, format } of drawings) {
    const { drawMarks } = await import('../../drawing/draw.ts')
    const marks = marksOn(medium, annotations)
    if (marks.length === 0 && media.length === 1)
      note(`the reply names no place to draw in ${basename(path)}; --boxes asks for some`)
    await writeWhole(path, await drawMarks(await medium.shown(), marks, format, palette))
  }
}
