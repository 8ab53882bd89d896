import type { Annotation, Leaf } from '../annotation.ts'
import { alike, linesGoOn, numbersOf } from '../answer-form.ts'
import { type Dialect, escapePattern, type Scene, withoutAny } from '../dialect.ts'
import { PROSE, type Reading, SpanReader, startingWith, UNCLEAR } from '../span-reader.ts'
import { boxOf } from './ref-box.ts'

/** Bins along each side of the image, which location tokens number. */
const BINS = 1024
const LOCATION = '<loc(?:0[0-9]{3}|10(?:[01][0-9]|2[0-3]))>'

const written = withoutAny(/\s*[<;\n]+\s*/g)

/** PaliGemma: `<loc0246><loc0229><loc0872><loc0904> car ; ...`: top, left, bottom, right, then the name. */
export const paligemma: Dialect = {
  formats: ['box'],
  instruction: () => null,
  tags: () => ({
    triggers: ['<loc'],
    // The name that follows is free text.
    tags: [
      { begin: '<loc', pattern: LOCATION.slice('<loc'.length) + LOCATION.repeat(2) + LOCATION.slice(0, -1), end: '>' },
    ],
  }),
  reader: (scene) => new SpanReader(startingWith('<', (text) => read(text, scene))),
  detection: {
    instruction: () => null,
    question: (_kind, labels) => `detect ${labels === null ? 'all objects' : labels.map(written).join(' ; ')}`,
    written,
    answer: (leaves) => leaves.map(itemOf).join(' ; '),
    pattern: (_kind, labels) => `(?:${itemPattern(labels)}(?: ; )?)*`,
    another: (_kind, labels, _scene, isFirst) => `${isFirst ? '' : ' ; '}${itemPattern(labels)}`,
    form: (kind) => {
      const [x, y] = alike({ most: BINS - 1, digits: 4 })
      return {
        object: /<loc(\d{4})><loc(\d{4})><loc(\d{4})><loc(\d{4})>(?:[^<;\n]*[^<;\s])?/dg,
        numbers: numbersOf(kind, [y, x]),
        goesOn: (text, isFirst) => (isFirst ? BEGINS(text, true) : /[;<\n]/.test(text) || null),
      }
    },
  },
}

function itemPattern(labels: readonly string[] | null): string {
  const name = labels === null ? '[^<;\\n]+' : `(?:${labels.map(written).map(escapePattern).join('|')})`
  return `${LOCATION.repeat(4)} ${name}`
}

const BEGINS = linesGoOn('<')

function itemOf({ mention = '', points }: Leaf): string {
  const bins = points
    .flatMap(({ x, y }) => [y, x])
    .map((value) => Math.min(Math.round((value / 1000) * BINS), BINS - 1))
  return `${bins.map((bin) => `<loc${String(bin).padStart(4, '0')}>`).join('')} ${written(mention)}`
}

const WHOLE = /^((?:<loc\d{4}>){4})[ \t]*([^<;\n]*)(?:(;[ \t]*)(?=[^ \t])|(?=[<\n]))/
/** The same, but ended by the end of the text, where the name may be incomplete. */
const OPEN = /^((?:<loc\d{4}>){4})[ \t]*([^<;\n]*)(?:;[ \t]*)?$/
const BEGUN = /^(?:<loc\d{4}>){0,3}(?:<(?:l(?:o(?:c\d{0,4})?)?)?)?$/

function read(text: string, scene: Scene): Reading {
  const whole = WHOLE.exec(text)
  if (whole) {
    const separator = whole[3] === undefined ? [] : [{ kind: 'prose' as const, text: '\n' }]
    return { type: 'span', length: whole[0].length, pieces: [leafOf(whole, scene), ...separator] }
  }
  const open = OPEN.exec(text)
  if (open) return { type: 'partial', whole: [leafOf(open, scene)] }
  return BEGUN.test(text) ? UNCLEAR : PROSE
}

function leafOf([, locations, name]: RegExpExecArray, scene: Scene): Annotation {
  const [top, left, bottom, right] = [...locations!.matchAll(/\d{4}/g)].map((bin) => Number(bin[0]))
  return boxOf([left!, top!, right!, bottom!], BINS, name!.trim(), scene)
}
