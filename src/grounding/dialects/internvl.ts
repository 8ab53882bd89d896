import type { Leaf } from '../annotation.ts'
import { type Dialect, escapePattern, GRID_NUMBER, type Scene } from '../dialect.ts'
import { normalised } from '../normal.ts'
import { type Notation, PROSE, type Reading, SpanReader, UNCLEAR } from '../span-reader.ts'

const BOX = `\\[${GRID_NUMBER}(?:, ${GRID_NUMBER}){3}\\]`
const BOXES = `\\[${BOX}(?:, ${BOX})*\\]`

/**
 * InternVL: `<ref>car</ref><box>[[229, 246, 904, 872], [...]]</box>`: left, top, right, bottom on a grid of 0..1000.
 * https://internvl.readthedocs.io/en/latest/get_started/chat_data_format.html (Grounding / Detection Data)
 */
export const internVl: Dialect = {
  formats: ['box'],
  instruction: () => null,
  tags: () => ({
    triggers: ['<ref>'],
    tags: [{ begin: '<ref>', pattern: `[^<>\\n]+</ref><box>${BOXES}`, end: '</box>' }],
  }),
  reader: (scene) => new SpanReader(new InternVlNotation(scene)),
  detection: {
    instruction: () => null,
    // The sentences of its training data.
    question: (_kind, labels) =>
      labels === null
        ? 'Please detect and label all objects in the following image and mark their positions.'
        : `Please provide the bounding box coordinates of the region this sentence describes: ${labels.map((label) => `<ref>${label}</ref>`).join(' ')}`,
    answer: (leaves) => leaves.map(itemOf).join('\n'),
    pattern(_kind, labels) {
      const name = labels === null ? '[^<>\\n]+' : `(?:${labels.map((label) => escapePattern(label)).join('|')})`
      return `(?:<ref>${name}</ref><box>${BOXES}</box>\\n?)*`
    },
  },
}

function itemOf({ mention = '', points }: Leaf): string {
  return `<ref>${mention}</ref><box>[[${points.flatMap(({ x, y }) => [x, y]).join(', ')}]]</box>`
}

const SPACE = '[ \\t]*'
const NUMBER = `${SPACE}\\d{1,4}(?:\\.\\d{1,4})?${SPACE}`
const WRITTEN_BOX = `${SPACE}\\[${NUMBER}(?:,${NUMBER}){3}\\]${SPACE}`
const WHOLE = new RegExp(
  `^<ref>([^<>\\n]*)</ref>[ \\t]*<box>(${SPACE}\\[${WRITTEN_BOX}(?:,${WRITTEN_BOX})*\\]${SPACE})</box>`,
)
/** What a span consists of: these texts, and what may stand between them. */
const PARTS = ['<ref>', /[^<>\n]*/y, '</ref>', /[ \t]*/y, '<box>', /[[\]\d., \t]*/y, '</box>']

/** Whether a span may begin with the text and go on after it. */
function isBegun(text: string): boolean {
  let at = 0
  for (const part of PARTS) {
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

class InternVlNotation implements Notation {
  readonly #scene: Scene

  constructor(scene: Scene) {
    this.#scene = scene
  }

  next(text: string, from: number): number {
    return text.indexOf('<', from)
  }

  read(text: string): Reading {
    const whole = WHOLE.exec(text)
    if (whole === null) return isBegun(text) ? UNCLEAR : PROSE
    const mention = whole[1]!.trim()
    const numbers = [...whole[2]!.matchAll(/\d+(?:\.\d+)?/g)].map(([number]) =>
      Math.min(Math.round(Number(number)), 1000),
    )
    const boxes = Array.from({ length: numbers.length / 4 }, (_, index) => {
      const [left, top, right, bottom] = numbers.slice(4 * index, 4 * index + 4) as [number, number, number, number]
      const points = [
        { x: left, y: top },
        { x: right, y: bottom },
      ]
      return normalised({ kind: 'point_box', ...(mention ? { mention } : {}), points }, this.#scene)
    })
    return { type: 'span', length: whole[0].length, pieces: boxes }
  }
}
