import { dirname, extname, resolve } from 'node:path'
import sharp from 'sharp'
import { ConfigError } from '../../config/config.ts'
import { strokeText } from '../../drawing/stroke-font.ts'
import { sumOf } from '../../lib/sum.ts'
import { checkWritable, keepOriginals, writeWhole } from '../asking/targets.ts'
import { binsOf, type Rated, type Threshold } from './box-quality.ts'

/** A series in one colour: a kind of evidence, or a type of question. */
export interface Series {
  readonly name: string
  /** Whether it is by a fit of other files, rather than without a fit. */
  readonly isAfter: boolean
  readonly rated: readonly Rated[]
  /** The figures of the table; null for none. */
  readonly figures: Readonly<Record<string, number | null>>
  /** Null for a series without recall. The marks are on the line. */
  readonly curve: { readonly line: readonly Threshold[]; readonly marks: readonly Threshold[] } | null
}

const FORMATS = ['.svg', '.png']
const COLOURS = ['#0a63c9', '#d3480b', '#1f8a3d']
const [INK, PALE, FAINT] = ['#1c1f21', '#6b7075', '#dfe2e5']
const SIDE = 360
const TOP = 64
const ROW = 22
const LETTER = 8
const FIGURE = 64
/** Left edge of the figures, right of the names. */
const FIGURES = 172
/** Pixels to the inch: at 72, one for each unit of the SVG. */
const DENSITY = 144
/** Radii of dots. */
const [LEAST_DOT, DOT, MOST_DOT] = [2, 4, 7]

/**
 * @param originals files that it must not replace.
 * @throws ConfigError before any work is done, if no diagrams can be written.
 */
export async function checkDiagrams(path: string, originals: readonly string[]): Promise<void> {
  if (!FORMATS.includes(extname(path).toLowerCase())) {
    throw new ConfigError(`-o ${path}: expected a file that ends with .svg or .png`)
  }
  await checkWritable(path, dirname(resolve(path)))
  await keepOriginals([path], originals)
}

/** @throws ConfigError */
export async function writeDiagrams(path: string, series: readonly Series[], bins: number): Promise<void> {
  const svg = drawDiagrams(series, bins)
  const isVector = extname(path).toLowerCase() === '.svg'
  const toPicture = () => sharp(Buffer.from(svg), { density: DENSITY }).png({ palette: true, colours: 16 }).toBuffer()
  await writeWhole(path, isVector ? svg : await toPicture())
}

/**
 * An SVG image: precision against recall, if there are such curves; a calibration diagram; and a line for each series
 * with its figures and the counts of its bins.
 */
export function drawDiagrams(series: readonly Series[], bins: number): string {
  const names = Object.keys(series[0]!.figures)
  const areCurves = series.some(({ curve }) => curve !== null)
  const [left, right] = [64, areCurves ? 64 + SIDE + 116 : FIGURES + FIGURE * names.length + 40]
  const colours = new Map([...new Set(series.map(({ name }) => name))].map((name, i) => [name, COLOURS[i]!]))
  const rows = TOP + SIDE + 76
  const [width, height] = [right + SIDE + 36, rows + ROW * series.length + 12]
  const drawn = [
    areCurves ? panel(left, CURVES, curves()) : '',
    panel(right, RELIABILITY, [diagonal(), ...series.map(reliability)]),
    ...names.map((name, i) => text(name, FIGURES + FIGURE * i, rows - ROW, { colour: PALE })),
    text(`how many, in ${bins} ranges of confidence`, right, rows - ROW, { colour: PALE }),
    ...series.map(legend),
  ]
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-label="${areCurves ? 'Precision-recall curve and reliability diagram' : 'Reliability diagram'}"><rect width="100%" height="100%" fill="#ffffff"/>${drawn.join('')}</svg>\n`

  function curves(): string[] {
    const lines = series.map((one) => {
      const points = (one.curve?.line ?? []).flatMap(({ recall, precision }) =>
        recall === null || precision === null ? [] : [at(recall, precision)],
      )
      const [first] = points
      return first === undefined ? '' : line([[0, first[1]], ...points], one)
    })
    const dots = series.flatMap((one) =>
      (one.curve?.marks ?? []).map(({ confidence, precision, recall }) => {
        if (precision === null || recall === null) return ''
        const said = `confidence ${confidence}: precision ${precision.toFixed(3)}, recall ${recall.toFixed(3)}`
        return dot(at(recall, precision), one, said)
      }),
    )
    return [...lines, ...dots]
  }

  function reliability(one: Series): string {
    const dots = binsOf(one.rated, bins).flatMap((bin, index) => {
      if (bin.length === 0) return []
      const right = bin.filter((rated) => rated.right).length
      const place = at(sumOf(bin, ({ confidence }) => confidence) / bin.length, right / bin.length)
      const range = [index, index + 1].map((edge) => Number((edge / bins).toFixed(2))).join(' to ')
      const radius = LEAST_DOT + (MOST_DOT - LEAST_DOT) * Math.sqrt(bin.length / one.rated.length)
      return [{ place, said: `${range}: ${right} of ${bin.length} right`, radius }]
    })
    const places = dots.map(({ place }) => place)
    return [line(places, one), ...dots.map(({ place, said, radius }) => dot(place, one, said, radius))].join('')
  }

  function legend(one: Series, row: number): string {
    const y = rows + ROW * row
    const colour = colours.get(one.name)!
    const counts = binsOf(one.rated, bins).map((bin, index) => {
      const place = right + ((index + 0.5) * SIDE) / bins
      return text(String(bin.length), place, y, { colour, anchor: 0.5, room: SIDE / bins - 4 })
    })
    const sample = [0, 13, 26].map((x): Place => [x, 0])
    return [
      group(24, y + LETTER / 2, line(sample, one) + dot(sample[1]!, one)),
      text(`${one.name}, ${one.isAfter ? 'after' : 'before'}`, 60, y, { colour, room: FIGURES - 72 }),
      ...names.map((name, i) => text(one.figures[name]?.toFixed(3) ?? '-', FIGURES + FIGURE * i, y, { colour })),
      ...counts,
    ].join('')
  }

  function line(points: readonly Place[], { name, isAfter }: Series): string {
    const dashes = isAfter ? '' : ' stroke-dasharray="5 4"'
    return `<polyline points="${points.map(([x, y]) => `${short(x)},${short(y)}`).join(' ')}" fill="none" stroke="${colours.get(name)!}" stroke-width="1.5" stroke-linejoin="round"${dashes}/>`
  }

  function dot([x, y]: Place, { name, isAfter }: Series, said = '', radius = DOT): string {
    const colour = colours.get(name)!
    const title = said === '' ? '' : `<title>${name}, ${isAfter ? 'after' : 'before'}, ${said}</title>`
    return `<circle cx="${short(x)}" cy="${short(y)}" r="${short(radius)}" fill="${isAfter ? colour : '#ffffff'}" stroke="${colour}" stroke-width="1.5">${title}</circle>`
  }
}

const CURVES = {
  title: 'Precision and recall',
  note: 'Dots: boxes with a confidence of at least 0.9, 0.7, 0.5, 0.3',
  across: 'recall',
  up: 'precision',
}
const RELIABILITY = {
  title: 'How often it is right',
  note: 'Dotted: as often as the confidence says. Large dots: many',
  across: 'confidence',
  up: 'share that is right',
}

type Place = readonly [x: number, y: number]

/** Position within a panel, from shares between 0 and 1. */
function at(across: number, up: number): Place {
  return [across * SIDE, (1 - up) * SIDE]
}

function diagonal(): string {
  return `<path d="M0 ${SIDE}L${SIDE} 0" stroke="${PALE}" stroke-dasharray="2 4"/>`
}

/** A square with both axes from 0 to 1. */
function panel(left: number, { title, note, across, up }: typeof CURVES, drawn: readonly string[]): string {
  const fifths = [0, 0.2, 0.4, 0.6, 0.8, 1]
  const lines = fifths.map((share) => {
    const [x, y] = at(share, share)
    return `<path d="M${x} 0V${SIDE}M0 ${y}H${SIDE}" stroke="${FAINT}"/>${text(share.toFixed(1), x, SIDE + 9, { anchor: 0.5 })}${text(share.toFixed(1), -9, y - LETTER / 2, { anchor: 1 })}`
  })
  const labels = [
    text(title, 0, -40, { height: 11 }),
    text(note, 0, -18, { colour: PALE, height: 7 }),
    text(across, SIDE / 2, SIDE + 28, { anchor: 0.5 }),
    `<g transform="translate(-46 ${SIDE / 2}) rotate(-90)">${text(up, 0, 0, { anchor: 0.5 })}</g>`,
  ]
  return group(left, TOP, [...lines, ...labels, ...drawn].join(''))
}

/**
 * @param y of the top of its capitals.
 * @param anchor which share of the text is left of x.
 * @param room that its width must not exceed.
 */
function text(
  words: string,
  x: number,
  y: number,
  { colour = INK, height = LETTER, anchor = 0, room = Number.POSITIVE_INFINITY } = {},
): string {
  const { width } = strokeText(words, height, colour)
  const fitting = height * Math.min(1, room / width)
  const { svg, width: own } = strokeText(words, fitting, colour)
  return group(x - own * anchor, y + (height - fitting) / 2, svg)
}

function group(x: number, y: number, svg: string): string {
  return `<g transform="translate(${short(x)} ${short(y)})">${svg}</g>`
}

function short(value: number): number {
  return Number(value.toFixed(1))
}
