import type { Annotation, Leaf } from '../annotation.ts'
import { alike, COORDINATE, linesGoOn, numbersOf } from '../answer-form.ts'
import { type Dialect, escapePattern, type Scene, withoutAny } from '../dialect.ts'
import { normalised } from '../normal.ts'
import { type Notation, PROSE, SpanReader, startingWith, UNCLEAR } from '../span-reader.ts'

/** How a family writes boxes after a name: `<ref>car</ref><box>...</box>`. */
export interface RefBoxForm {
  /** Marks around a name and around boxes; `DEFAULT_MARKS` by default. */
  readonly marks?: Marks
  /** The maximum coordinate, which is that of the right and bottom edges; 1000 by default. */
  readonly most?: number
  /** The pattern of the text in `<box>`. */
  readonly boxes: string
  /** Like `boxes`, but with the variations that models write: a part of a regular expression. */
  readonly writtenBoxes: string
  /** The same for one box, where `boxes` is a list of several. */
  readonly one?: string
  /** The text in `<box>` for one box: left, top, right, bottom. */
  write(box: readonly number[]): string
  /** Whether a box may be without a name, for the thing that the question names. */
  readonly nameless: boolean
  question(labels: readonly string[] | null): string
}

const SPACE = '[ \\t]*'

/**
 * Boxes as nested lists, `[[10, 20, 30, 40], ...]`.
 * @param number the pattern of a coordinate.
 */
export function listedBoxes(number: string): Pick<RefBoxForm, 'boxes' | 'writtenBoxes' | 'one' | 'write'> {
  const box = `\\[${number}(?:, ${number}){3}\\]`
  const written = `${SPACE}\\d{1,4}(?:\\.\\d{1,4})?${SPACE}`
  const writtenBox = `${SPACE}\\[${written}(?:,${written}){3}\\]${SPACE}`
  return {
    boxes: `\\[${box}(?:, ${box})*\\]`,
    writtenBoxes: `${SPACE}\\[${writtenBox}(?:,${writtenBox})*\\]${SPACE}`,
    one: `\\[${box}\\]`,
    write: (numbers) => `[[${numbers.join(', ')}]]`,
  }
}

type Marks = readonly [ref: string, refEnd: string, box: string, boxEnd: string]
const DEFAULT_MARKS: Marks = ['<ref>', '</ref>', '<box>', '</box>']

const written = withoutAny(/\s*[<>\n]+\s*/g)

/** Creates the dialect of a family that writes boxes after a name. */
export function refBoxDialect(form: RefBoxForm): Dialect {
  const { marks = DEFAULT_MARKS } = form
  const [ref, refEnd, box, boxEnd] = marks.map(escapePattern) as unknown as Marks
  const item = (labels: readonly string[] | null, boxes: string) => {
    const name = labels === null ? '[^<>\\n]+' : `(?:${labels.map(written).map(escapePattern).join('|')})`
    return `${ref}${name}${refEnd}${box}${boxes}${boxEnd}`
  }
  return {
    formats: ['box'],
    marks,
    instruction: () => null,
    tags: () => ({
      triggers: [marks[0]],
      tags: [{ begin: marks[0], pattern: `[^<>\\n]+${refEnd}${box}${form.boxes}`, end: marks[3] }],
    }),
    reader: (scene) => new SpanReader(refBoxNotation(form, scene)),
    detection: {
      instruction: () => null,
      question: (_kind, labels) => form.question(labels === null ? null : labels.map(written)),
      written,
      answer: (leaves) => leaves.map((leaf) => itemOf(leaf, form)).join('\n'),
      pattern: (_kind, labels) => `(?:${item(labels, form.boxes)}\\n?)*`,
      another: (_kind, labels, _scene, isFirst) =>
        `${isFirst ? '' : `${form.one === undefined ? '' : '\\]'}${boxEnd}\\n`}${item(labels, form.one ?? form.boxes)}`,
      form(kind) {
        const lines = linesGoOn('<', `${form.one === undefined ? '' : ']'}${marks[3]}`)
        return {
          object: form.one
            ? new RegExp(`\\[\\s*${Array(4).fill(COORDINATE).join('\\s*,\\s*')}\\s*\\]`, 'dg')
            : new RegExp(`(?<=${box})\\s*${Array(4).fill(COORDINATE).join('[\\s,]+')}`, 'dg'),
          numbers: numbersOf(kind, alike({ most: form.most ?? 1000 })),
          // Another box may follow in the same list.
          goesOn: (text, isFirst) => (!isFirst && text.startsWith(',') ? true : lines(text, isFirst)),
        }
      },
    },
  }
}

function itemOf({ mention = '', points }: Leaf, form: RefBoxForm): string {
  const [ref, refEnd, box, boxEnd] = form.marks ?? DEFAULT_MARKS
  const numbers = points.flatMap(({ x, y }) => [x, y]).map((value) => Math.round((value / 1000) * (form.most ?? 1000)))
  return `${ref}${written(mention)}${refEnd}${box}${form.write(numbers)}${boxEnd}`
}

/** The parts of a span: these texts, and what may be between them. */
function partsOf([ref, refEnd, box, boxEnd]: Marks): readonly (readonly (string | RegExp)[])[] {
  const boxParts = [box, /[[\]\d., \t]*/y, boxEnd]
  return [[ref, /[^<>\n]*/y, refEnd, /[ \t]*/y, ...boxParts], boxParts]
}

/** Whether the text may be the beginning of a span of these parts. */
function isBegun(text: string, parts: readonly (string | RegExp)[]): boolean {
  let at = 0
  for (const part of parts) {
    if (typeof part === 'string') {
      const found = text.slice(at, at + part.length)
      if (found.length < part.length) return part.startsWith(found)
      if (found !== part) return false
      at += part.length
    } else {
      part.lastIndex = at
      at += part.exec(text)![0].length
    }
  }
  return false
}

function refBoxNotation(form: RefBoxForm, scene: Scene): Notation {
  const { writtenBoxes, nameless, marks = DEFAULT_MARKS, most } = form
  const [ref, refEnd, box, boxEnd] = marks.map(escapePattern)
  const name = `${ref}([^<>\\n]*)${refEnd}[ \\t]*`
  const pattern = new RegExp(`^${nameless ? `(?:${name})?` : name}${box}(${writtenBoxes})${boxEnd}`)
  const possible = partsOf(marks).slice(0, nameless ? 2 : 1)
  return startingWith('<', (text) => {
    const whole = pattern.exec(text)
    if (whole === null) return possible.some((parts) => isBegun(text, parts)) ? UNCLEAR : PROSE
    const mention = whole[1]?.trim() ?? ''
    return { type: 'span', length: whole[0].length, pieces: boxesIn(whole[2]!, mention, scene, most) }
  })
}

/**
 * The boxes of the numbers in a text, four for each, with any text between them.
 * @param most the maximum coordinate.
 */
export function boxesIn(text: string, mention: string, scene: Scene, most = 1000): Annotation[] {
  const numbers = [...text.matchAll(/\d+(?:\.\d+)?/g)].map(([number]) => Number(number))
  return Array.from({ length: numbers.length / 4 }, (_, index) =>
    boxOf(numbers.slice(4 * index, 4 * index + 4), most, mention, scene),
  )
}

/** The box with these coordinates: left, top, right, bottom, each at most `most`. */
export function boxOf(numbers: readonly number[], most: number, mention: string, scene: Scene): Annotation {
  const grid = numbers.map((number) => Math.min(Math.round((number / most) * 1000), 1000))
  const [left, top, right, bottom] = grid as [number, number, number, number]
  const points = [
    { x: left, y: top },
    { x: right, y: bottom },
  ]
  return normalised({ kind: 'point_box', ...(mention ? { mention } : {}), points }, scene)
}
