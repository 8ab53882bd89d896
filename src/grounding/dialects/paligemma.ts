import type { Leaf } from '../annotation.ts'
import { type Dialect, escapePattern, type Scene, withoutAny } from '../dialect.ts'
import { normalised } from '../normal.ts'
import { type Notation, PROSE, type Reading, SpanReader, UNCLEAR } from '../span-reader.ts'

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
  reader: (scene) => new SpanReader(new PaliGemmaNotation(scene)),
  detection: {
    instruction: () => null,
    question: (_kind, labels) => `detect ${labels === null ? 'all objects' : labels.map(written).join(' ; ')}`,
    written,
    answer: (leaves) => leaves.map(itemOf).join(' ; '),
    pattern(_kind, labels) {
      const name = labels === null ? '[^<;\\n]+' : `(?:${labels.map(written).map(escapePattern).join('|')})`
      return `(?:${LOCATION.repeat(4)} ${name}(?: ; )?)*`
    },
  },
}

function itemOf({ mention = '', points }: Leaf): string {
  const bins = points
    .flatMap(({ x, y }) => [y, x])
    .map((value) => Math.min(Math.round((value / 1000) * BINS), BINS - 1))
  return `${bins.map((bin) => `<loc${String(bin).padStart(4, '0')}>`).join('')} ${written(mention)}`
}

const WHOLE = /^((?:<loc\d{4}>){4})[ \t]*([^<;\n]*)(?:(;[ \t]*)(?=[^ \t])|(?=[<\n]))/
/** The same, but ended by the end of the text, where the name may not be complete. */
const OPEN = /^((?:<loc\d{4}>){4})[ \t]*([^<;\n]*)(?:;[ \t]*)?$/
const BEGUN = /^(?:<loc\d{4}>){0,3}(?:<(?:l(?:o(?:c\d{0,4})?)?)?)?$/

class PaliGemmaNotation implements Notation {
  readonly #scene: Scene

  constructor(scene: Scene) {
    this.#scene = scene
  }

  next(text: string, from: number): number {
    return text.indexOf('<', from)
  }

  read(text: string): Reading {
    const whole = WHOLE.exec(text)
    if (whole) {
      const separator = whole[3] === undefined ? [] : [{ kind: 'prose' as const, text: '\n' }]
      return { type: 'span', length: whole[0].length, pieces: [this.#leaf(whole), ...separator] }
    }
    const open = OPEN.exec(text)
    if (open) return { type: 'partial', whole: [this.#leaf(open)] }
    return BEGUN.test(text) ? UNCLEAR : PROSE
  }

  #leaf([, locations, name]: RegExpExecArray): ReturnType<typeof normalised> {
    const [top, left, bottom, right] = [...locations!.matchAll(/\d{4}/g)].map((bin) =>
      Math.min(Math.round((Number(bin[0]) / BINS) * 1000), 1000),
    ) as [number, number, number, number]
    const mention = name!.trim()
    const points = [
      { x: left, y: top },
      { x: right, y: bottom },
    ]
    return normalised({ kind: 'point_box', ...(mention ? { mention } : {}), points }, this.#scene)
  }
}
