import type { Annotation, Clip, Collection, GridPoint, Leaf, LeafKind, Prose, Track } from './annotation.ts'
import { endsInName } from './prose-guard.ts'

export type MarkupErrorCode =
  | 'invalid_point_coords'
  | 'invalid_box_coords'
  | 'invalid_polygon_coords'
  | 'invalid_clip_timestamp'
  | 'invalid_clip_body'
  | 'invalid_time'
  | 'invalid_asset_idx'
  | 'invalid_collection_child'
  | 'invalid_track_child'
  | 'invalid_track_geometry'
  | 'invalid_track_asset'
  | 'unexpected_close_tag'
  | 'unclosed_tag'
  | 'incomplete_annotation'

export class MarkupError extends Error {
  override readonly name = 'MarkupError'
  readonly code: MarkupErrorCode
  /** Offset of the invalid annotation in the text, in UTF-16 code units. */
  readonly offset: number

  constructor(code: MarkupErrorCode, offset: number) {
    super(`${code} at ${offset}`)
    this.code = code
    this.offset = offset
  }
}

/**
 * Parses a reply strictly into prose and annotations, in order. Text that looks like one of the grammar's tags must be
 * a valid tag. Everything else is prose, including other tags.
 * @throws MarkupError for the first annotation that the grammar does not allow.
 */
export function parseMarkup(text: string): (Prose | Annotation)[] {
  return new Parser(text).parse()
}

/** The annotation that the whole text represents; null for any other text. */
export function parseAnnotation(text: string): Annotation | null {
  try {
    const [only, ...others] = parseMarkup(text)
    return only === undefined || only.kind === 'prose' || others.length > 0 ? null : only
  } catch (error) {
    if (error instanceof MarkupError) return null
    throw error
  }
}

interface FoundAnnotation {
  readonly annotation: Annotation
  /** Its end in the text. */
  readonly end: number
}

/** Finds the annotation at the beginning of a growing text. Its complete parts are not parsed again each time. */
export class GrowingAnnotation {
  /** The text up to the end of the last complete child or pair. */
  #read = ''
  /** The tags that are open at that point. */
  #open = ''

  /**
   * Null if there is no annotation; 'unclear' if that depends on further text.
   * @param text begins with a tag.
   */
  find(text: string): FoundAnnotation | 'unclear' | null {
    if (!text.startsWith(this.#read)) this.#read = this.#open = ''
    // Without the text parsed before, this can only tell that the annotation may continue.
    if (this.#read !== '' && this.#next(`${this.#open}${text.slice(this.#read.length)}`) === 'unclear') return 'unclear'
    this.#read = this.#open = ''
    return this.#next(text)
  }

  /** The complete part of a track; null if there is none. */
  track(): Annotation | null {
    return this.#open === '<track>' ? parseAnnotation(`${this.#read}</track>`) : null
  }

  #next(text: string): FoundAnnotation | 'unclear' | null {
    const parser = new Parser(text)
    try {
      const annotation = parser.one()
      return annotation && { annotation, end: parser.position }
    } catch (error) {
      if (!(error instanceof MarkupError)) throw error
      if (!parser.cutOff) return null
      if (parser.complete !== null) {
        const { position, open } = parser.complete
        this.#read += text.slice(this.#open.length, position)
        this.#open = open
      }
      return 'unclear'
    }
  }
}

const TAG_START = /<(\/?)(point_box|point|polygon|clip|track|collection)(?=[\s/>])/gi
/** A quoted value ends before the next tag and within its line, so that an unclosed quote hides no text after it. */
const ATTRIBUTE = /\s+([a-z_][\w-]*)\s*=\s*(?:"([^"<\r\n]*)"|'([^'<\r\n]*)'|([^\s"'<>/]+))/iy
const CLOSING = {
  point: /\s*<\/point\s*>/iy,
  point_box: /\s*<\/point_box\s*>/iy,
  polygon: /\s*<\/polygon\s*>/iy,
  clip: /\s*<\/clip\s*>/iy,
  track: /\s*<\/track\s*>/iy,
  collection: /\s*<\/collection\s*>/iy,
}
/** Maximum characters of an incomplete tag. */
const LONGEST_TAG = 4_096
const TAG_END = /\s*(\/?)>/y
/** Allowed ends of a text inside a tag, and inside a body or a container. */
const TAG_REST = /(?:\s*\/?|\s+[a-z_][\w-]*\s*(?:=\s*(?:"[^"<\r\n]*|'[^'<\r\n]*)?)?)$/iy
const BODY_REST = /[\s\d(),]*(<\/?[a-z_]*\s*)?$/iy
const CHILD_REST = /(<\/?[a-z_]*\s*)?$/iy
const PAIR = /\s*\(\s*(\d+)\s*,\s*(\d+)\s*\)/y
const TIME = /^\s*(\d+(?:\.\d+)?)(?:\s*(?:seconds?|s))?\s*$/i
const SPAN =
  /^\s*(\d+(?:\.\d+)?)(?:\s*(?:seconds?|s)\b)?(?:(?:\s*[-,]\s*|\s+)(\d+(?:\.\d+)?)(?:\s*(?:seconds?|s))?)?\s*$/i

const LEAF_RULES: Readonly<Record<LeafKind, { code: MarkupErrorCode; least: number; most: number }>> = {
  point: { code: 'invalid_point_coords', least: 1, most: 1 },
  point_box: { code: 'invalid_box_coords', least: 2, most: 2 },
  polygon: { code: 'invalid_polygon_coords', least: 3, most: Number.POSITIVE_INFINITY },
}

type TagName = LeafKind | 'clip' | 'track' | 'collection'

interface OpenTag {
  readonly name: TagName
  readonly offset: number
  readonly selfClosed: boolean
  readonly attributes: ReadonlyMap<string, string>
}

class Parser {
  readonly #text: string
  #position: number
  /** Whether the error is only due to the end of the text. */
  cutOff = false
  /** The end of the last complete child or pair, and the tags that are open at that point; null for none. */
  complete: { readonly position: number; readonly open: string } | null = null
  #open = ''

  constructor(text: string) {
    this.#text = text
    this.#position = 0
  }

  get position(): number {
    return this.#position
  }

  /** The annotation whose tag begins here. Null for an empty container. */
  one(): Annotation | null {
    return this.#annotation(this.#openTag())
  }

  parse(): (Prose | Annotation)[] {
    const items: (Prose | Annotation)[] = []
    for (;;) {
      TAG_START.lastIndex = this.#position
      const start = TAG_START.exec(this.#text)
      const end = start?.index ?? this.#text.length
      if (end > this.#position) items.push({ kind: 'prose', text: this.#text.slice(this.#position, end) })
      if (!start) return items
      this.#position = end
      if (start[1]) throw new MarkupError('unexpected_close_tag', end)
      const annotation = this.one()
      if (annotation) items.push(annotation)
    }
  }

  /** Null for an empty container, which annotates nothing. */
  #annotation(tag: OpenTag): Annotation | null {
    switch (tag.name) {
      case 'clip':
        return this.#clip(tag)
      case 'track':
        return this.#track(tag)
      case 'collection':
        return this.#collection(tag)
      default:
        return this.#leaf(tag, tag.name)
    }
  }

  #openTag(): OpenTag {
    const offset = this.#position
    TAG_START.lastIndex = offset
    const start = TAG_START.exec(this.#text)!
    this.#position = TAG_START.lastIndex
    const attributes = new Map<string, string>()
    for (let match = this.#take(ATTRIBUTE); match; match = this.#take(ATTRIBUTE)) {
      const name = match[1]!.toLowerCase()
      if (!attributes.has(name)) attributes.set(name, unescapeText(match[2] ?? match[3] ?? match[4]!))
    }
    const end = this.#take(TAG_END)
    if (!end) {
      this.cutOff = this.#take(TAG_REST) !== null && this.#position - offset < LONGEST_TAG
      throw new MarkupError('unclosed_tag', offset)
    }
    return { name: start[2]!.toLowerCase() as TagName, offset, selfClosed: end[1] === '/', attributes }
  }

  #leaf(tag: OpenTag, kind: LeafKind): Leaf {
    const rule = LEAF_RULES[kind]
    if (tag.selfClosed) throw new MarkupError(rule.code, tag.offset)
    const points: GridPoint[] = []
    for (let match = this.#take(PAIR); match; match = this.#take(PAIR)) {
      points.push({ x: Number(match[1]), y: Number(match[2]) })
      if (rule.most > 2) this.complete = { position: this.#position, open: `${this.#open}<${kind}>` }
    }
    this.#close(tag, rule.code)
    if (points.length < rule.least || points.length > rule.most || !points.every(onGrid)) {
      throw new MarkupError(rule.code, tag.offset)
    }
    return { kind, ...common(tag), ...spatialTime(tag), points }
  }

  #clip(tag: OpenTag): Clip {
    if (!tag.selfClosed) this.#close(tag, 'invalid_clip_body')
    const span = SPAN.exec(tag.attributes.get('t') ?? '')
    if (!span) throw new MarkupError('invalid_clip_timestamp', tag.offset)
    const start = Number(span[1])
    if (span[2] === undefined) return { kind: 'clip', ...common(tag), start }
    return { kind: 'clip', ...common(tag), start, end: Number(span[2]) }
  }

  #track(tag: OpenTag): Track | null {
    const waypoints: Leaf[] = []
    for (const child of this.#children(tag, 'invalid_track_child')) {
      if (child.kind === 'clip' || child.kind === 'track' || child.kind === 'collection') {
        throw new MarkupError('invalid_track_child', tag.offset)
      }
      if (child.t === undefined) throw new MarkupError('invalid_time', tag.offset)
      waypoints.push(child)
    }
    const own = common(tag)
    const kinds = new Set(waypoints.map((waypoint) => waypoint.kind))
    if (kinds.size > 1) throw new MarkupError('invalid_track_geometry', tag.offset)
    const assets = new Set(waypoints.map((waypoint) => waypoint.assetIdx ?? own.assetIdx))
    if (assets.size > 1) throw new MarkupError('invalid_track_asset', tag.offset)
    return waypoints.length === 0 ? null : { kind: 'track', ...own, waypoints }
  }

  #collection(tag: OpenTag): Collection | null {
    const members: (Leaf | Clip | Track)[] = []
    for (const child of this.#children(tag, 'invalid_collection_child')) {
      if (child.kind === 'collection') throw new MarkupError('invalid_collection_child', tag.offset)
      members.push(child)
    }
    return members.length === 0 ? null : { kind: 'collection', ...common(tag), ...spatialTime(tag), members }
  }

  /** The annotations inside a container, up to and including its closing tag. Only white space may separate them. */
  #children(tag: OpenTag, code: MarkupErrorCode): Annotation[] {
    const children: Annotation[] = []
    if (tag.selfClosed) return children
    const outside = this.#open
    this.#open += `<${tag.name}>`
    while (!this.#take(CLOSING[tag.name])) {
      this.#take(/\s*/y)
      if (this.#endsIn(CHILD_REST)) throw new MarkupError('incomplete_annotation', tag.offset)
      TAG_START.lastIndex = this.#position
      const start = TAG_START.exec(this.#text)
      if (start?.index !== this.#position) throw new MarkupError(code, this.#position)
      if (start[1]) throw new MarkupError('unexpected_close_tag', this.#position)
      // Containers never contain their own kind. This bounds the depth, so that no text can exhaust the stack.
      const name = start[2]!.toLowerCase()
      if (name === tag.name || (name === 'collection' && tag.name === 'track')) {
        throw new MarkupError(code, this.#position)
      }
      const child = this.one()
      if (child) children.push(child)
      this.complete = { position: this.#position, open: this.#open }
    }
    this.#open = outside
    return children
  }

  #close(tag: OpenTag, code: MarkupErrorCode): void {
    if (this.#take(CLOSING[tag.name])) return
    throw new MarkupError(this.#endsIn(BODY_REST) ? 'incomplete_annotation' : code, tag.offset)
  }

  /** Whether the text ends here, or inside the possible beginning of the next tag. */
  #endsIn(rest: RegExp): boolean {
    const match = this.#take(rest)
    this.cutOff = match !== null && (match[1] === undefined || endsInName(match[1].trimEnd()))
    return this.cutOff
  }

  #take(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#position
    const match = pattern.exec(this.#text)
    if (match) this.#position = pattern.lastIndex
    return match
  }
}

function onGrid({ x, y }: GridPoint): boolean {
  return x <= 1000 && y <= 1000
}

function common(tag: OpenTag): { mention?: string; assetIdx?: number } {
  const mention = tag.attributes.get('mention')
  const asset = tag.attributes.get('asset_idx')?.trim()
  if (asset && !/^\d+$/.test(asset)) throw new MarkupError('invalid_asset_idx', tag.offset)
  return { ...(mention ? { mention } : {}), ...(asset ? { assetIdx: Number(asset) } : {}) }
}

function spatialTime(tag: OpenTag): { t?: number } {
  const value = tag.attributes.get('t')
  if (!value) return {}
  const time = TIME.exec(value)
  if (!time) throw new MarkupError('invalid_time', tag.offset)
  return { t: Number(time[1]) }
}

const NAMED: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }

/** Decodes the HTML entities in an attribute value. */
export function unescapeText(text: string): string {
  return text.replace(/&(?:(amp|lt|gt|quot|apos)|#x([0-9a-f]{1,6})|#(\d{1,7}));/gi, (entity, name, hex, decimal) => {
    if (name) return NAMED[name.toLowerCase()]!
    const code = hex ? Number.parseInt(hex, 16) : Number(decimal)
    return code <= 0x10ffff ? String.fromCodePoint(code) : entity
  })
}
