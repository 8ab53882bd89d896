import { isRecord, type JsonObject } from '../../lib/json/parse-json.ts'
import { readReply } from '../asking/reply-annotations.ts'

/** A part of a response that is compared separately. */
export type Part =
  | { readonly kind: 'text'; readonly text: string; readonly logProbs: readonly TokenLogProb[] | null }
  | { readonly kind: 'tool calls'; readonly calls: readonly ToolCall[] }
  | { readonly kind: 'places'; readonly places: readonly Place[] }
  | { readonly kind: 'decision'; readonly decision: Decision }
  | { readonly kind: 'value'; readonly value: unknown }

export interface TokenLogProb {
  readonly token: string
  readonly logprob: number
}

export interface ToolCall {
  readonly name: unknown
  /** A text if they are JSON text. */
  readonly arguments: unknown
}

/** An object in a picture, or a span of time, in the unit of its response. */
export interface Place {
  readonly kind: 'point' | 'box' | 'polygon' | 'clip'
  readonly category: string
  /** What else must be equal for two places to be the same object: the picture, the frame. */
  readonly within: string
  /** One for a point, two for a box, more for a polygon; for a clip, its start and end along x. */
  readonly points: readonly { readonly x: number; readonly y: number }[]
}

export interface Decision {
  readonly choice: string
  /** By option. */
  readonly probabilities: ReadonlyMap<string, number>
  /** The other fields of the answer. */
  readonly rest: unknown
}

/** Fields that differ between any two responses. */
const OWN = new Set(['id', 'created', 'created_at', 'completed_at', 'usage', 'model', 'system_fingerprint'])

/** The parts of a response's body by their display names. A body of an unknown shape is one value. */
export function partsOf(body: unknown): ReadonlyMap<string, Part> {
  const fields = isRecord(body) ? body : {}
  const parts =
    chatParts(fields.choices, '') ??
    multilookParts(fields.results) ??
    detectionParts(fields) ??
    decisionParts(fields.answers) ??
    itemParts(fields.output, fields.status) ??
    itemParts(fields.content, fields.stop_reason) ??
    answerParts(fields) ??
    ([['response', { kind: 'value', value: withoutOwn(body) }]] as const)
  const named = new Map<string, Part>()
  for (const [name, part] of parts) named.set(named.has(name) ? `${name} (${named.size + 1})` : name, part)
  return named
}

type Parts = readonly (readonly [name: string, part: Part])[] | null

/** Chat completions, and the completions of a prompt of multilook. */
function chatParts(choices: unknown, prefix: string): Parts {
  const list = listOf(choices, ({ message }) => isRecord(message))
  return (
    list?.flatMap((choice, index) => {
      const { content, refusal, reasoning_content: thoughts, tool_calls: calls } = choice.message as JsonObject
      const before = list.length === 1 ? prefix : `${prefix}${index + 1}. `
      const logProbs = isRecord(choice.logprobs) ? listOf(choice.logprobs.content, isTokenLogProb) : null
      return [
        ...textPart(`${before}reply`, content, logProbs as readonly TokenLogProb[] | null),
        ...textPart(`${before}refusal`, refusal),
        ...textPart(`${before}thoughts`, thoughts),
        ...callPart(`${before}tool calls`, calls),
        ...valuePart(`${before}finish_reason`, choice.finish_reason),
      ]
    }) ?? null
  )
}

function multilookParts(results: unknown): Parts {
  const list = listOf(results, ({ completions, error }) => Array.isArray(completions) || isRecord(error))
  return (
    list?.flatMap(({ completions, error }, index) => {
      const name = `prompt ${index + 1} `
      return chatParts(completions, name) ?? valuePart(`${name}error`, isRecord(error) ? error.message : error)
    }) ?? null
  )
}

function detectionParts({ detections, finish_reason: reason }: JsonObject): Parts {
  const list = listOf(detections, ({ mention }) => typeof mention === 'string')
  const places = list?.map(({ mention, point, point_box: box }): Place | null => {
    const common = { category: mention as string, within: '' }
    return isRecord(box) ? boxed([box.top_left, box.bottom_right], common) : pointed(point, common)
  })
  if (!places?.every((place) => place !== null)) return null
  return [['detections', { kind: 'places', places }], ...valuePart('finish_reason', reason)]
}

function decisionParts(answers: unknown): Parts {
  const list = listOf(answers, ({ type }) => typeof type === 'string')
  return (
    list?.flatMap((answer, index) => {
      const name = typeof answer.name === 'string' ? answer.name : `question ${index + 1}`
      const places = placesOf(answer)
      if (places === null) return [[name, decisionPart(answer)] as const]
      return [[name, { kind: 'places', places }] as const, ...valuePart(`${name} confidence`, answer.confidence)]
    }) ?? null
  )
}

/** Null for an answer that is no place. */
function placesOf({ type, box, point, clip }: JsonObject): readonly Place[] | null {
  const common = { category: String(type).replace('x_', ''), within: '' }
  if (box === null || point === null || clip === null) return []
  const { left, top, right, bottom } = isRecord(box) ? box : {}
  const { start_seconds: start, end_seconds: end } = isRecord(clip) ? clip : {}
  const corners = [
    { x: left, y: top },
    { x: right, y: bottom },
  ]
  const place = boxed(corners, common) ?? spanned(start, end, common) ?? pointed(point, common)
  return place && [place]
}

function decisionPart(answer: JsonObject): Part {
  const { name: _, type, probability, probabilities, ...rest } = answer
  if (type === 'predicate' && isNumber(probability)) {
    const choice = probability >= 0.5 ? 'yes' : 'no'
    return { kind: 'decision', decision: { choice, probabilities: new Map([['yes', probability]]), rest } }
  }
  const list = listOf(probabilities, ({ probability }) => isNumber(probability))
  if (list === null) return { kind: 'value', value: answer }
  const options = list.map(({ label, value, probability }) => [String(label ?? value), probability as number] as const)
  const [likeliest] = options.toSorted(([, one], [, other]) => other - one)
  const choice = rest.choice ?? rest.count ?? likeliest?.[0]
  return { kind: 'decision', decision: { choice: String(choice), probabilities: new Map(options), rest } }
}

/** Parts of an item list of the Responses and the Messages API: texts, thoughts and calls. */
function itemParts(items: unknown, reason: unknown): Parts {
  const list = listOf(items, ({ type }) => typeof type === 'string')
  if (list === null) return null
  const texts = (type: string, field: string) =>
    list
      .flatMap((item) => [
        item,
        ...(listOf(item.content, () => true) ?? []),
        ...(listOf(item.summary, () => true) ?? []),
      ])
      .flatMap((item) => (item.type === type && typeof item[field] === 'string' ? [item[field]] : []))
      .join('\n')
  const calls = list.filter(({ type }) => type === 'function_call' || type === 'tool_use')
  const others = list.filter(({ type }) => !KNOWN_ITEMS.has(type as string))
  return [
    ...textPart('reply', texts('output_text', 'text') || texts('text', 'text')),
    ...textPart('refusal', texts('refusal', 'refusal') || null),
    ...textPart(
      'thoughts',
      texts('reasoning_text', 'text') || texts('summary_text', 'text') || texts('thinking', 'thinking') || null,
    ),
    ...callPart(
      'tool calls',
      calls.map(({ name, arguments: text, input }) => ({ name, arguments: text ?? input })),
    ),
    ...(others.length === 0 ? [] : valuePart('items', others.map(withoutOwn))),
    ...valuePart('stop_reason', reason),
  ]
}

const KNOWN_ITEMS = new Set(['message', 'text', 'function_call', 'tool_use', 'reasoning', 'thinking'])

/** Parts of an answer of `lookout batch --ask`. */
function answerParts({ answer, finish_reason: reason }: JsonObject): Parts {
  return typeof answer === 'string' ? [...textPart('reply', answer), ...valuePart('finish_reason', reason)] : null
}

/** Splits a text into its places and its prose. If there are places, white space in the prose is collapsed. */
export function placesIn(text: string): { readonly prose: string; readonly places: readonly Place[] } {
  const { prose, leaves } = readReply(text)
  const places = leaves.map((leaf): Place => {
    const common = { category: leaf.mention ?? '', within: `${leaf.assetIdx ?? ''}` }
    if (leaf.kind === 'clip') return spanned(leaf.start, leaf.end ?? leaf.start, common)!
    const kind = leaf.kind === 'point_box' ? 'box' : leaf.kind
    return { kind, ...common, within: `${common.within} ${leaf.t ?? ''}`, points: leaf.points }
  })
  return { prose: places.length === 0 ? prose : prose.replace(/\s+/g, ' ').trim(), places }
}

type Common = Pick<Place, 'category' | 'within'>

function boxed(corners: readonly unknown[], common: Common): Place | null {
  return corners.every(isPoint) ? { kind: 'box', ...common, points: corners } : null
}

function pointed(point: unknown, common: Common): Place | null {
  return isPoint(point) ? { kind: 'point', ...common, points: [point] } : null
}

function spanned(start: unknown, end: unknown, common: Common): Place | null {
  const points = [
    { x: start, y: 0 },
    { x: end, y: 1 },
  ]
  return points.every(isPoint) ? { kind: 'clip', ...common, points } : null
}

/** A number in JSON may be too large, and infinite here. */
function isNumber(value: unknown): value is number {
  return Number.isFinite(value)
}

function isPoint(value: unknown): value is Place['points'][number] {
  return isRecord(value) && isNumber(value.x) && isNumber(value.y)
}

function isTokenLogProb({ token, logprob }: JsonObject): boolean {
  return typeof token === 'string' && isNumber(logprob)
}

function textPart(name: string, text: unknown, logProbs: readonly TokenLogProb[] | null = null): [string, Part][] {
  return typeof text === 'string' ? [[name, { kind: 'text', text, logProbs }]] : []
}

/** @param calls in the form of chat completions, or only their functions. */
function callPart(name: string, calls: unknown): [string, Part][] {
  if (Array.isArray(calls) && calls.length === 0) return []
  const list = listOf(calls, () => true)?.map(({ function: call, ...own }) => (isRecord(call) ? call : own))
  if (list === undefined) return valuePart(name, calls)
  return [[name, { kind: 'tool calls', calls: list.map((call) => ({ name: call.name, arguments: call.arguments })) }]]
}

function valuePart(name: string, value: unknown): [string, Part][] {
  return value === undefined || value === null ? [] : [[name, { kind: 'value', value }]]
}

function withoutOwn(value: unknown): unknown {
  return isRecord(value) ? Object.fromEntries(Object.entries(value).filter(([key]) => !OWN.has(key))) : value
}

/** Null unless the value is a list of objects that `isOne` accepts. */
function listOf(value: unknown, isOne: (fields: JsonObject) => boolean): readonly JsonObject[] | null {
  return Array.isArray(value) && value.every((item) => isRecord(item) && isOne(item)) ? value : null
}
