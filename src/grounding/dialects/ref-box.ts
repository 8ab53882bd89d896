import type { Leaf } from '../annotation.ts'
import { type Dialect, escapePattern, type Scene } from '../dialect.ts'
import { normalised } from '../normal.ts'
import { type Notation, PROSE, type Reading, SpanReader, UNCLEAR } from '../span-reader.ts'

/** How a family writes boxes behind a name: `<ref>car</ref><box>...</box>`, on a grid of 0..1000. */
export interface RefBoxForm {
  /** The pattern of what stands in `<box>`. */
  readonly boxes: string
  /** As `boxes`, but with the liberties that models take: a part of a regular expression. */
  readonly writtenBoxes: string
  /** What stands in `<box>` for one box: left, top, right, bottom. */
  write(box: readonly number[]): string
  /** Whether a box may stand alone, for what the question names. */
  readonly nameless: boolean
  question(labels: readonly string[] | null): string
}

const MARKS = ['<ref>', '</ref>', '<box>', '</box>'] as const

/** Creates the dialect of a family that writes boxes behind a name. */
export function refBoxDialect(form: RefBoxForm): Dialect {
  return {
    formats: ['box'],
    marks: MARKS,
    instruction: () => null,
    tags: () => ({
      triggers: ['<ref>'],
      tags: [{ begin: '<ref>', pattern: `[^<>\\n]+</ref><box>${form.boxes}`, end: '</box>' }],
    }),
    reader: (scene) => new SpanReader(new RefBoxNotation(form, scene)),
    detection: {
      instruction: () => null,
      question: (_kind, labels) => form.question(labels),
      answer: (leaves) => leaves.map((leaf) => itemOf(leaf, form)).join('\n'),
      pattern(_kind, labels) {
        const name = labels === null ? '[^<>\\n]+' : `(?:${labels.map((label) => escapePattern(label)).join('|')})`
        return `(?:<ref>${name}</ref><box>${form.boxes}</box>\\n?)*`
      },
    },
  }
}

function itemOf({ mention = '', points }: Leaf, form: RefBoxForm): string {
  return `<ref>${mention}</ref><box>${form.write(points.flatMap(({ x, y }) => [x, y]))}</box>`
}

/** What a span consists of: these texts, and what may stand between them. */
const BOX_PARTS = ['<box>', /[[\]\d., \t]*/y, '</box>']
const NAMED_PARTS = ['<ref>', /[^<>\n]*/y, '</ref>', /[ \t]*/y, ...BOX_PARTS]

/** Whether a span of these parts may begin with the text and go on after it. */
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

class RefBoxNotation implements Notation {
  readonly #scene: Scene
  readonly #whole: RegExp
  readonly #parts: readonly (readonly (string | RegExp)[])[]

  constructor({ writtenBoxes, nameless }: RefBoxForm, scene: Scene) {
    this.#scene = scene
    const name = `<ref>([^<>\\n]*)</ref>[ \\t]*`
    this.#whole = new RegExp(`^${nameless ? `(?:${name})?` : name}<box>(${writtenBoxes})</box>`)
    this.#parts = nameless ? [NAMED_PARTS, BOX_PARTS] : [NAMED_PARTS]
  }

  next(text: string, from: number): number {
    return text.indexOf('<', from)
  }

  read(text: string): Reading {
    const whole = this.#whole.exec(text)
    if (whole === null) return this.#parts.some((parts) => isBegun(text, parts)) ? UNCLEAR : PROSE
    const mention = whole[1]?.trim() ?? ''
    return { type: 'span', length: whole[0].length, pieces: boxesIn(whole[2]!, mention, this.#scene) }
  }
}

/** The boxes among numbers in a text, four for each, whatever stands between them. */
export function boxesIn(text: string, mention: string, scene: Scene): ReturnType<typeof normalised>[] {
  const numbers = [...text.matchAll(/\d+(?:\.\d+)?/g)].map(([number]) => Math.min(Math.round(Number(number)), 1000))
  return Array.from({ length: numbers.length / 4 }, (_, index) => {
    const [left, top, right, bottom] = numbers.slice(4 * index, 4 * index + 4) as [number, number, number, number]
    const points = [
      { x: left, y: top },
      { x: right, y: bottom },
    ]
    return normalised({ kind: 'point_box', ...(mention ? { mention } : {}), points }, scene)
  })
}
