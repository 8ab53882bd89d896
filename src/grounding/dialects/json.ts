import type { Annotation, GridPoint, Leaf, Prose } from '../annotation.ts'
import { COORDINATE, numbersOf } from '../answer-form.ts'
import { type DetectionKind, type Dialect, escapePattern, type Scene } from '../dialect.ts'
import { normalised } from '../normal.ts'
import { upTo } from '../numbers.ts'
import { type Notation, PROSE, type Reading, SpanReader, UNCLEAR } from '../span-reader.ts'

/** How a model family writes annotations as JSON objects: `{"bbox_2d": [10, 20, 30, 40], "label": "cat"}`. */
export interface JsonForm {
  /** The key of the coordinates, for each kind that the family can write. */
  readonly keys: Readonly<Partial<Record<DetectionKind, string>>>
  /** The key of the name; `label` by default. */
  readonly labelKey?: string
  /** Whether the name comes before the coordinates. */
  readonly labelFirst?: boolean
  /** The key of the text at the place, which belongs to the reply. */
  readonly textKey?: string
  readonly yFirst: boolean
  /** The indentation of each object in a list; null if the list is one line without a code fence. */
  readonly indent: string | null
  /** Digits after the decimal point of coordinates; without them, coordinates are integers. */
  readonly decimals?: number
  /** The largest coordinates, which are those of the right and bottom edges of the image. */
  space(scene: Scene): { readonly width: number; readonly height: number }
  /** Null for a family that has no such instruction. */
  instruction(kind: DetectionKind): string | null
  question(kind: DetectionKind, labels: readonly string[] | null): string
}

const KIND_OF = { box: 'point_box', point: 'point' } as const
const COUNT = { box: 2, point: 1 } as const
const KINDS = ['point', 'box'] as const
const LABEL = '"(?:[^"\\\\\\x00-\\x1f]|\\\\(?:["\\\\/bfnrt]|u[0-9a-fA-F]{4}))*"'

/** Creates the dialect of a family that writes JSON. The reply leaves out brackets and code fences around objects. */
export function jsonDialect(form: JsonForm): Dialect {
  const coordinates = (kind: DetectionKind, scene: Scene) => {
    const { width, height } = form.space(scene)
    const pair = (form.yFirst ? [height, width] : [width, height]).map((side) => coordinateUpTo(side, form))
    return Array.from({ length: COUNT[kind] }, () => pair)
      .flat()
      .join(', ')
  }
  const kindOf = (format: string): DetectionKind => (format === 'point' ? 'point' : 'box')
  const objectPattern = (kind: DetectionKind, labels: readonly string[] | null, scene: Scene) => {
    const label = labels === null ? LABEL : `(?:${labels.map((name) => escapePattern(JSON.stringify(name))).join('|')})`
    const [first, rest] = membersOf(form, kind, `${coordinates(kind, scene)}\\]`, label)
    return `\\{"${first}": ${rest}\\}`
  }
  const { indent } = form
  return {
    formats: KINDS.filter((kind) => form.keys[kind] !== undefined),
    instruction: (format) => form.instruction(kindOf(format)),
    tags(format, scene) {
      const kind = kindOf(format)
      const [first, rest] = membersOf(form, kind, `${coordinates(kind, scene)}\\]`, LABEL)
      return { triggers: [`{"${first}"`], tags: [{ begin: `{"${first}": `, pattern: rest, end: '}' }] }
    },
    reader: (scene) => new SpanReader(new JsonNotation(form, scene)),
    detection: {
      instruction: () => null,
      question: form.question,
      answer(leaves, scene) {
        const objects = leaves.map((leaf) => objectOf(leaf, form, scene))
        if (indent === null) return `[${objects.join(', ')}]`
        const lines = objects.map((object) => `\n${indent}${object}`)
        return `\`\`\`json\n[${lines.join(',')}${lines.length > 0 ? '\n' : ''}]\n\`\`\``
      },
      pattern(kind, labels, scene) {
        const object = objectPattern(kind, labels, scene)
        // There may be many labels, so the pattern contains them only once.
        if (indent === null) return `\\[(?:${object}(?:, )?)*\\]`
        return `\`\`\`json\\n\\[(?:\\n${indent}${object},?)*\\n?\\]\\n\`\`\``
      },
      another(kind, labels, scene, isFirst) {
        const object = objectPattern(kind, labels, scene)
        if (indent === null) return `${isFirst ? '\\[' : ', '}${object}`
        return `${isFirst ? '```json\\n\\[' : ','}\\n${indent}${object}`
      },
      form(kind, scene) {
        const { width, height } = form.space(scene)
        const { decimals = 0, keys, yFirst } = form
        const axes = [
          { axis: 'x', most: width, decimals },
          { axis: 'y', most: height, decimals },
        ] as const
        const numbers = numbersOf(kind, yFirst ? [axes[1], axes[0]] : axes)
        const coordinates = numbers.map(() => COORDINATE).join('\\s*,\\s*')
        const rest = `(?:[^{}"]|${LABEL}|\\{(?:[^{}"]|${LABEL})*\\})*`
        return {
          object: new RegExp(`\\{${rest}"${keys[kind]}"\\s*:\\s*\\[\\s*${coordinates}\\s*\\]${rest}\\}`, 'dg'),
          numbers,
          goesOn: listGoesOn,
        }
      },
    },
  }
}

/** Whether a list continues, after an object or at its beginning. */
function listGoesOn(text: string, isFirst: boolean): boolean | null {
  if (isFirst) {
    const begun = /(\{)|\[(\s*\S?)/.exec(text)
    if (begun === null || begun[2] === '') return null
    return begun[1] !== undefined || /^\s|\{/.test(begun[2]!)
  }
  // A comma precedes the line of the next object, but not the closing bracket.
  return /^[ \t]*$/.test(text) ? null : /^[ \t]*[,{]/.test(text)
}

/** The first key of an object, and the pattern of the text after it. */
function membersOf(
  { keys, labelKey = 'label', labelFirst }: JsonForm,
  kind: DetectionKind,
  coordinates: string,
  label: string,
): readonly [first: string, rest: string] {
  const key = keys[kind]!
  return labelFirst
    ? [labelKey, `${label}, "${key}": \\[${coordinates}`]
    : [key, `\\[${coordinates}, "${labelKey}": ${label}`]
}

function coordinateUpTo(side: number, { decimals }: JsonForm): string {
  if (decimals === undefined) return upTo(side)
  const below = side === 1 ? '0' : upTo(side - 1)
  return `(?:${below}(?:\\.[0-9]{1,${decimals}})?|${side}(?:\\.0{1,${decimals}})?)`
}

function objectOf({ kind, mention = '', points }: Leaf, form: JsonForm, scene: Scene): string {
  const { width, height } = form.space(scene)
  const { decimals = 0, labelKey = 'label' } = form
  const numbers = points.flatMap(({ x, y }) => {
    const pair = [((x / 1000) * width).toFixed(decimals), ((y / 1000) * height).toFixed(decimals)].map(Number)
    return form.yFirst ? pair.reverse() : pair
  })
  const place = `"${form.keys[kind === 'point' ? 'point' : 'box']}": [${numbers.join(', ')}]`
  const name = `"${labelKey}": ${JSON.stringify(mention)}`
  return `{${form.labelFirst ? `${name}, ${place}` : `${place}, ${name}`}}`
}

/** Matches the start of a list of objects, complete or not; captures the fence and the bracket. */
const HEAD = /^(`{1,3}(?:j(?:s(?:on?)?)?)?\s*)?(\[\s*)?/
const FENCE = /^```(?:json)?\s*$/
const EMPTY_LIST = /^\]\s*```/
const EMPTY_LIST_START = /^\]\s*`{0,2}$/

interface OpenList {
  readonly fenced: boolean
  readonly bracketed: boolean
  objects: number
}

export class JsonNotation implements Notation {
  readonly #form: JsonForm
  readonly #scene: Scene
  readonly #keys: readonly string[]
  /** The list being read. */
  #list: OpenList | null = null

  constructor(form: JsonForm, scene: Scene) {
    this.#form = form
    this.#scene = scene
    const { keys, labelKey = 'label', textKey } = form
    this.#keys = [...Object.values(keys), labelKey, ...(textKey === undefined ? [] : [textKey])]
  }

  next(text: string, from: number): number {
    if (this.#list) return from
    const found = text.slice(from).search(/[{[`]/)
    return found === -1 ? -1 : from + found
  }

  read(text: string): Reading {
    if (this.#list) {
      const reading = this.#readInList(text, this.#list)
      if (reading) return reading
      this.#list = null
      // The list has ended. Read the rest as if there had been none.
      if (this.next(text, 0) !== 0) return PROSE
    }
    return text.startsWith('{') ? this.#object(text) : this.#head(text)
  }

  /** Null when the list ends without its closing bracket or fence. */
  #readInList(text: string, list: OpenList): Reading | null {
    const gap = /^[\s,]*/.exec(text)![0].length
    if (gap === text.length) return UNCLEAR
    if (text[gap] === '{') {
      const start = this.#objectStart(text.slice(gap))
      if (start !== 'yes') return start === 'maybe' ? UNCLEAR : null
      if (gap > 0) return { type: 'span', length: gap, pieces: list.objects > 0 ? [{ kind: 'prose', text: '\n' }] : [] }
      const reading = this.#object(text)
      if (reading.type === 'span') list.objects++
      return reading.type === 'prose' ? null : reading
    }
    const tail = `\\s*${list.bracketed ? '\\]\\s*' : ''}${list.fenced ? '```' : ''}`
    const end = new RegExp(`^${tail}`).exec(text)?.[0]
    if (end) {
      this.#list = null
      // White space after the bracket belongs to the reply.
      const length = list.fenced ? end.length : end.trimEnd().length
      return length === 0 ? null : { type: 'span', length, pieces: [] }
    }
    const begun = list.bracketed ? /^\s*\]\s*`{0,2}$/ : /^\s*`{0,2}$/
    return list.fenced && begun.test(text) ? UNCLEAR : null
  }

  #head(text: string): Reading {
    const [head, fence, bracket] = HEAD.exec(text)!
    const rest = text.slice(head.length)
    if (rest === '') return UNCLEAR
    if (fence !== undefined && !FENCE.test(fence)) return PROSE
    const start = this.#objectStart(rest)
    if (start === 'maybe') return UNCLEAR
    if (start === 'yes') {
      this.#list = { fenced: fence !== undefined, bracketed: bracket !== undefined, objects: 0 }
      return { type: 'span', length: head.length, pieces: [] }
    }
    if (fence === undefined || bracket === undefined) return PROSE
    const empty = EMPTY_LIST.exec(rest)
    if (empty) return { type: 'span', length: head.length + empty[0].length, pieces: [] }
    return EMPTY_LIST_START.test(rest) ? UNCLEAR : PROSE
  }

  /** Whether the text begins with an object whose first key is one of ours. */
  #objectStart(text: string): 'yes' | 'no' | 'maybe' {
    const [whole, key, colon] = /^\{\s*(?:"([a-z0-9_]*)(?:"\s*(:)?)?)?/.exec(text) ?? []
    if (whole === undefined) return 'no'
    if (colon) return this.#keys.includes(key!) ? 'yes' : 'no'
    if (whole.length < text.length) return 'no'
    return key === undefined || this.#keys.some((known) => known.startsWith(key)) ? 'maybe' : 'no'
  }

  #object(text: string): Reading {
    const start = this.#objectStart(text)
    if (start !== 'yes') return start === 'maybe' ? UNCLEAR : PROSE
    const length = objectLength(text)
    if (length === null) return UNCLEAR
    const pieces = this.#pieces(text.slice(0, length))
    return pieces ? { type: 'span', length, pieces } : PROSE
  }

  #pieces(text: string): (Prose | Annotation)[] | null {
    let value: Readonly<Record<string, unknown>>
    try {
      value = JSON.parse(text)
    } catch {
      return null
    }
    const { keys, labelKey = 'label', textKey } = this.#form
    for (const kind of KINDS) {
      const numbers = keys[kind] === undefined ? undefined : value[keys[kind]]
      if (!Array.isArray(numbers) || numbers.length !== 2 * COUNT[kind] || !numbers.every(Number.isFinite)) continue
      const label = value[labelKey]
      const mention = typeof label === 'string' ? label.toWellFormed() : ''
      const leaf: Leaf = { kind: KIND_OF[kind], ...(mention ? { mention } : {}), points: this.#points(numbers) }
      const said = textKey === undefined ? undefined : value[textKey]
      const prose = typeof said === 'string' && said !== '' ? [{ kind: 'prose' as const, text: ` ${said}` }] : []
      return [normalised(leaf, this.#scene), ...prose]
    }
    return null
  }

  #points(numbers: readonly number[]): GridPoint[] {
    const { width, height } = this.#form.space(this.#scene)
    const points: GridPoint[] = []
    for (let i = 0; i < numbers.length; i += 2) {
      const [x, y] = this.#form.yFirst ? [numbers[i + 1]!, numbers[i]!] : [numbers[i]!, numbers[i + 1]!]
      points.push({ x: toGrid(x, width), y: toGrid(y, height) })
    }
    return points
  }
}

function toGrid(value: number, side: number): number {
  return Math.min(Math.max(Math.round((value / side) * 1000), 0), 1000)
}

/** Length of the JSON object at the start of the text; null when the object is incomplete. */
function objectLength(text: string): number | null {
  let depth = 0
  let quoted = false
  for (let i = 0; i < text.length; i++) {
    const character = text[i]
    if (quoted) {
      if (character === '\\') i++
      else if (character === '"') quoted = false
    } else if (character === '"') quoted = true
    else if (character === '{' || character === '[') depth++
    else if (character === '}' || character === ']') {
      depth--
      if (depth === 0) return i + 1
    }
  }
  return null
}
