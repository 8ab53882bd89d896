import sharp from 'sharp'
import { LabelPlaces, type Size } from './label-places.ts'
import type { Mark } from './mark.ts'
import { Palette } from './palette.ts'
import type { PictureFormat } from './picture-format.ts'
import { canStroke, strokeText } from './stroke-font.ts'

/** Minimum longer side: below it, labels have no room, and the drawing is enlarged by a whole factor. */
const LEAST_SIDE = 400
const HALO = '#000000'
/** Half of the height of descenders: the padding below has room for the rest. */
const DESCENT = 1.15

/**
 * Draws marks on an upright copy of a picture: boxes, points and polygons in one colour per label, each with its label.
 * A tiny picture is enlarged so that labels are legible.
 * @param picture bytes in any format that sharp reads; 16-bit profiles are ignored.
 */
export async function drawMarks(
  picture: Uint8Array,
  marks: readonly Mark[],
  format: PictureFormat,
  palette: Palette = new Palette(),
): Promise<Buffer> {
  // A slightly damaged picture can still be drawn on.
  const given = sharp(picture, { failOn: 'error' })
  const { autoOrient: original } = await given.metadata()
  const times = Math.max(1, Math.ceil(LEAST_SIDE / Math.max(original.width, original.height)))
  const size = { width: original.width * times, height: original.height * times }
  const enlarged = marks.map((mark) => ({
    ...mark,
    points: mark.points.map(({ x, y }) => ({ x: x * times, y: y * times })),
  }))
  let upright = given.autoOrient()
  if (times > 1) upright = upright.resize({ ...size, fit: 'fill', kernel: 'nearest' })
  if (format === 'jpeg') upright = upright.flatten({ background: '#ffffff' })
  return upright
    .toColourspace('srgb')
    .composite([{ input: Buffer.from(await overlay(enlarged, size, palette)) }])
    .toFormat(format, format === 'png' ? {} : { quality: 92 })
    .toBuffer()
}

/** The EXIF orientation, 1 to 8, by which an upright picture was rotated or mirrored. */
export async function pictureOrientation(picture: Uint8Array): Promise<number> {
  return (await sharp(picture).metadata()).orientation ?? 1
}

async function overlay(marks: readonly Mark[], size: Size, palette: Palette): Promise<string> {
  const scale = Math.sqrt(size.width * size.height)
  // A narrow strip has many pixels but still no room.
  const narrow = Math.min(size.width, size.height)
  const line = clamp(scale / 300, 2, Math.max(2, narrow / 40))
  const capital = clamp(scale / 60, 9, Math.max(9, narrow / 12))
  const colours = new Map(marks.map(({ label }) => [label, palette.of(label)]))
  const shapes = marks.map((mark) => shape(mark, colours.get(mark.label)!.fill, line, size))
  const places = new LabelPlaces(size)
  const labels: string[] = []
  for (const mark of marks) {
    if (mark.label === '') continue
    const { fill, text } = colours.get(mark.label)!
    const written = await write(mark.label, capital, text, size.width)
    const padding = written.capital * 0.45
    const box = { width: written.width + 2 * padding, height: written.height + 2 * padding }
    const { x, y } = places.take(bounds(mark), box, mark.kind === 'point' ? line * 6 : line)
    labels.push(
      `<g transform="translate(${x.toFixed(1)} ${y.toFixed(1)})"><rect width="${box.width.toFixed(1)}" height="${box.height.toFixed(1)}" rx="${(padding / 2).toFixed(1)}" fill="${fill}" stroke="${HALO}" stroke-opacity=".55" stroke-width="${(line / 3).toFixed(2)}"/><g transform="translate(${padding.toFixed(1)} ${padding.toFixed(1)})">${written.svg}</g></g>`,
    )
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${size.width}" height="${size.height}">${shapes.join('')}${labels.join('')}</svg>`
}

/** Each line has a dark outline, so that it is visible on a background of its own colour. */
function shape({ kind, points }: Mark, colour: string, line: number, { width, height }: Size): string {
  const drawn = (element: string, fill = 'none') =>
    `<g fill="none" stroke-linejoin="round"><g stroke="${HALO}" stroke-opacity=".6" stroke-width="${(line * 1.7).toFixed(2)}">${element}</g><g stroke="${colour}" fill="${fill}" fill-opacity=".14" stroke-width="${line.toFixed(2)}">${element}</g></g>`
  const [first] = points
  if (kind === 'point') {
    const { x, y } = first!
    return `<circle cx="${x}" cy="${y}" r="${(line * 2.6).toFixed(2)}" fill="${HALO}" fill-opacity=".6"/><circle cx="${x}" cy="${y}" r="${(line * 2.1).toFixed(2)}" fill="#ffffff"/><circle cx="${x}" cy="${y}" r="${(line * 1.5).toFixed(2)}" fill="${colour}"/>`
  }
  // Half of a line along the edge of the picture would be cut off.
  const inset = line / 2
  const inside = points.map(({ x, y }) => ({
    x: clamp(x, inset, width - inset),
    y: clamp(y, inset, height - inset),
  }))
  if (kind === 'polygon') return drawn(`<polygon points="${inside.map(({ x, y }) => `${x},${y}`).join(' ')}"/>`, colour)
  const [from, to] = inside as [(typeof inside)[0], (typeof inside)[0]]
  return drawn(
    `<rect x="${from.x}" y="${from.y}" width="${Math.max(0, to.x - from.x)}" height="${Math.max(0, to.y - from.y)}"/>`,
  )
}

interface Written {
  readonly svg: string
  readonly width: number
  readonly height: number
  readonly capital: number
}

/** A label that is no wider than the picture: in smaller letters if necessary, and shortened if that is not enough. */
async function write(label: string, capital: number, colour: string, most: number): Promise<Written> {
  const oneLine = label.replace(/\s+/g, ' ').trim()
  if (!canStroke(oneLine)) {
    const written = await writeWithFonts(oneLine, capital, colour)
    if (written) return written.width <= most ? written : shrink(written, most)
  }
  const smallest = Math.min(capital, 7)
  const room = (height: number) => most - height
  for (const height of [capital, capital * 0.75, smallest]) {
    const { svg, width } = strokeText(oneLine, height, colour)
    if (width <= room(height)) return stroked(svg, width, height)
  }
  const letters = [...oneLine]
  while (letters.length > 1 && strokeText(`${letters.join('')}..`, smallest, colour).width > room(smallest))
    letters.pop()
  const { svg, width } = strokeText(`${letters.join('')}..`, smallest, colour)
  return stroked(svg, width, smallest)
}

function stroked(svg: string, width: number, capital: number): Written {
  return { svg, width, height: capital * DESCENT, capital }
}

function shrink({ svg, width, height, capital }: Written, most: number): Written {
  const scale = (most - capital) / width
  return {
    svg: `<g transform="scale(${scale.toFixed(3)})">${svg}</g>`,
    width: width * scale,
    height: height * scale,
    capital: capital * scale,
  }
}

/**
 * Other scripts need the machine's fonts.
 * @returns null if it has none for them.
 */
async function writeWithFonts(text: string, capital: number, colour: string): Promise<Written | null> {
  const escaped = text.replace(/[&<>]/g, (character) => `&#${character.charCodeAt(0)};`)
  try {
    const { data, info } = await sharp({
      text: {
        text: `<span foreground="${colour}">${escaped}</span>`,
        font: `sans ${Math.round(capital * 1.4)}`,
        dpi: 72,
        rgba: true,
      },
    })
      .png()
      .toBuffer({ resolveWithObject: true })
    const svg = `<image width="${info.width}" height="${info.height}" href="data:image/png;base64,${data.toString('base64')}"/>`
    return { svg, width: info.width, height: info.height, capital }
  } catch {
    return null
  }
}

function bounds({ points }: Mark) {
  const xs = points.map(({ x }) => x)
  const ys = points.map(({ y }) => y)
  return { left: Math.min(...xs), top: Math.min(...ys), right: Math.max(...xs), bottom: Math.max(...ys) }
}

function clamp(value: number, least: number, most: number): number {
  return Math.min(Math.max(value, least), Math.max(least, most))
}
