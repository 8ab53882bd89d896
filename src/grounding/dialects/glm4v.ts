import type { Dialect, Scene } from '../dialect.ts'
import { type Notation, PROSE, type Reading, SpanReader, spaced, UNCLEAR } from '../span-reader.ts'
import { type JsonForm, JsonNotation, jsonDialect } from './json.ts'
import { boxesIn } from './ref-box.ts'

const EXAMPLE = '{"bbox_2d": [x1, y1, x2, y2], "label": "category"}'
const BEGIN = '<|begin_of_box|>'
const END = '<|end_of_box|>'

const form: JsonForm = {
  keys: { box: 'bbox_2d', point: 'point_2d' },
  yFirst: false,
  indent: '  ',
  space: () => ({ width: 1000, height: 1000 }),
  instruction: () =>
    `Whenever you refer to something in an image, report its bounding box as JSON, normalized to 0-1000, like this: ${EXAMPLE}`,
  question: (_kind, labels) =>
    `${labels === null ? 'Please detect every object in the image' : `Please detect every instance of these categories in the image: ${labels.join(', ')}`}. ` +
    `Output a JSON list of objects like ${EXAMPLE}, with coordinates normalized to 0-1000. If there is none, output [].`,
}

/**
 * GLM-4.1V and later: boxes without a name are `<|begin_of_box|>[[x1, y1, x2, y2], ...]<|end_of_box|>`, in brackets that vary;
 * with names they are JSON. Both are on a grid of 0..1000. The marks may also enclose the JSON, or any other answer.
 * https://github.com/zai-org/GLM-V (README, Grounding; skills/glmv-grounding/SKILL.md, "Objects Detection JSON")
 */
export const glm4v: Dialect = {
  ...jsonDialect(form),
  formats: ['box'],
  marks: [BEGIN, END],
  reader: (scene) => new SpanReader(new GlmNotation(scene)),
}

const WHOLE = /^<\|begin_of_box\|>([\s\d.,;[\](){}<>]*)<\|end_of_box\|>/
/** A prefix of a match of `WHOLE`, or of marks around JSON. */
const BEGUN = /^<\|begin_of_box\|>[\s\d.,;[\](){}<>]*(?:\|[a-z_|]*)?$/
/** The mark before a list of objects, an object, or a code fence. */
const BEFORE_JSON = /^<\|begin_of_box\|>\s*(?=(?:\[\s*)?\{\s*"|`)/

class GlmNotation implements Notation {
  readonly #scene: Scene
  readonly #json: JsonNotation
  /** Whether the text follows a dropped mark. */
  #marked = false

  constructor(scene: Scene) {
    this.#scene = scene
    this.#json = new JsonNotation(form, scene)
  }

  next(text: string, from: number): number {
    const found = [text.indexOf('<', from), this.#json.next(text, from)].filter((index) => index !== -1)
    return found.length === 0 ? -1 : Math.min(...found)
  }

  read(text: string): Reading {
    const reading = text.startsWith('<') ? this.#readMark(text) : PROSE
    return reading.type === 'prose' ? this.#json.read(text) : reading
  }

  #readMark(text: string): Reading {
    if (BEGIN.startsWith(text) || (this.#marked && END.startsWith(text) && text.length < END.length)) return UNCLEAR
    if (this.#marked && text.startsWith(END)) {
      this.#marked = false
      return { type: 'span', length: END.length, pieces: [] }
    }
    const whole = WHOLE.exec(text)
    if (whole !== null) {
      const numbers = whole[1]!.match(/\d+(?:\.\d+)?/g)?.length ?? 0
      if (numbers === 0 || numbers % 4 > 0) return PROSE
      return { type: 'span', length: whole[0].length, pieces: spaced(boxesIn(whole[1]!, '', this.#scene)) }
    }
    const mark = BEFORE_JSON.exec(text)
    if (mark !== null) {
      this.#marked = true
      return { type: 'span', length: mark[0].length, pieces: [] }
    }
    return BEGUN.test(text) ? UNCLEAR : PROSE
  }
}
