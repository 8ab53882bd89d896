import type { Leaf } from '../annotation.ts'
import { alike, linesGoOn, numbersOf } from '../answer-form.ts'
import { type Dialect, escapePattern, GRID_NUMBER, type Scene, withoutAny } from '../dialect.ts'
import { PROSE, type Reading, SpanReader, startingWith, UNCLEAR } from '../span-reader.ts'
import { boxesIn } from './ref-box.ts'

const BOX = `${GRID_NUMBER}(?:,${GRID_NUMBER}){3}`
const written = withoutAny(/\s*[[\]\n]+\s*/g)
const FILE = 'image_[0-9]{1,3}\\.png'

/**
 * LightOnOCR-2 bbox: in the Markdown of a page, `![image](image_1.png)120,80,900,410` represents a figure: left, top,
 * right, bottom on a grid of 0..1000. It takes no question. Here, the text in brackets is the name.
 */
export const lightOnOcr: Dialect = {
  formats: ['box'],
  instruction: () => null,
  tags: () => ({
    triggers: ['!['],
    tags: [{ begin: '![', pattern: `[^\\[\\]\\n]+\\]\\(${FILE}\\)${GRID_NUMBER}(?:,${GRID_NUMBER}){2}`, end: ',' }],
  }),
  reader: (scene) => new SpanReader(startingWith('!', (text) => read(text, scene))),
  detection: {
    instruction: () => null,
    question: () => '',
    written,
    answer: (leaves) => leaves.map(figureOf).join('\n'),
    pattern: (_kind, labels) => `(?:${figurePattern(labels)}\\n?)*`,
    another: (_kind, labels, _scene, isFirst) => `${isFirst ? '' : '\\n'}${figurePattern(labels)}`,
    form: (kind) => ({
      object: /!\[[^[\]\n]*\]\(image_\d+\.png\)[ \t]*(\d+)[ \t]*,[ \t]*(\d+)[ \t]*,[ \t]*(\d+)[ \t]*,[ \t]*(\d+)/dg,
      numbers: numbersOf(kind, alike({ most: 1000 })),
      goesOn: linesGoOn('!'),
    }),
  },
}

function figurePattern(labels: readonly string[] | null): string {
  const name = labels === null ? '[^\\[\\]\\n]+' : `(?:${labels.map(written).map(escapePattern).join('|')})`
  return `!\\[${name}\\]\\(${FILE}\\)${BOX}`
}

function figureOf({ mention = '', points }: Leaf, index: number): string {
  return `![${written(mention)}](image_${(index % 999) + 1}.png)${points.flatMap(({ x, y }) => [x, y]).join(',')}`
}

const HEAD = /^!\[([^[\]\n]*)\]\(image_\d{1,3}\.png\)[ \t]*/
const NUMBERS = /^\d{1,4}(?:[ \t]*,[ \t]*\d{1,4}){3}/
const BEGUN = /^!(?:\[[^[\]\n]*(?:\](?:\([a-z_\d.]{0,13}\)?)?)?)?$/
const NUMBERS_BEGUN = /^(?:\d{1,4}[ \t]*,[ \t]*){0,3}\d{0,4}[ \t]*$/

function read(text: string, scene: Scene): Reading {
  const head = HEAD.exec(text)
  if (head === null) return BEGUN.test(text) ? UNCLEAR : PROSE
  const rest = text.slice(head[0].length)
  const numbers = NUMBERS.exec(rest)
  if (numbers === null) return NUMBERS_BEGUN.test(rest) ? UNCLEAR : PROSE
  const pieces = boxesIn(numbers[0], head[1]!.trim(), scene)
  // The last number may have further digits.
  if (numbers[0].length === rest.length && /,[ \t]*\d{1,3}$/.test(numbers[0])) return { type: 'partial', whole: pieces }
  return { type: 'span', length: head[0].length + numbers[0].length, pieces }
}
