import { distinctPairs, matchBoxes } from '../../exports/box-matching.ts'
import type { DetectedBox } from '../../exports/detected-picture.ts'
import { isRecord } from '../../lib/parse-json.ts'
import {
  type Decision,
  type Part,
  type Place,
  partsOf,
  placesIn,
  type TokenLogProb,
  type ToolCall,
} from './reply-parts.ts'
import type { Result } from './result-files.ts'

/** One thing that differs between two results of a request, as `--json` prints it. */
export type Change =
  /** `word` counts from 1; both texts are the same before it. */
  | {
      readonly part: string
      readonly kind: 'text'
      readonly word: number
      readonly before: string
      readonly now: string
    }
  | {
      readonly part: string
      readonly kind: 'json' | 'tool calls' | 'value'
      readonly fields: readonly Difference[]
      readonly more: number
    }
  | { readonly part: string; readonly kind: 'places'; readonly categories: Readonly<Record<string, PlaceCounts>> }
  | ({ readonly part: string; readonly kind: 'decision'; readonly before: string; readonly now: string } & Spread)
  | ({ readonly part: string; readonly kind: 'log-probabilities'; readonly tokens: number } & Spread)
  | { readonly part: string; readonly kind: 'error'; readonly before: string | null; readonly now: string | null }
  | { readonly part: string; readonly kind: 'only before' | 'only now' }

/** A field by its path, such as `items[2].name`. What is not there is undefined. */
export interface Difference {
  readonly path: string
  readonly before: unknown
  readonly now: unknown
}

/** Absolute changes of probabilities, or of log-probabilities. */
export interface Spread {
  readonly mean_change: number
  readonly largest_change: number
}

/** Places of one category. `only_before` and `only_now` are those without a partner. */
export interface PlaceCounts {
  readonly matched: number
  /** Matched ones that are not where they were. */
  readonly moved: number
  readonly only_before: number
  readonly only_now: number
  /** Of matched boxes, of those around matched polygons, and of matched clips; null where there are none. */
  readonly mean_iou: number | null
  /** Between matched points, in the unit of the response: pixels, or in a text thousandths of the picture's sides. */
  readonly mean_distance: number | null
}

/** Boxes that overlap less are different objects. */
const LEAST_IOU = 0.5
/** Fields of one part that are listed. */
const MOST_FIELDS = 3

/** Compared parts, and how many of them are the same. */
interface Agreement {
  compared: number
  same: number
}
const noneYet = (): Agreement => ({ compared: 0, same: 0 })

/** Compares results of requests one by one, and counts what has changed in all of them. */
export class Comparison {
  /** `values` are other fields, such as `finish_reason`. */
  readonly #counts = {
    texts: noneYet(),
    json: noneYet(),
    tool_calls: noneYet(),
    values: noneYet(),
    errors: { new: 0, gone: 0, other: 0, same: 0 },
  }
  readonly #decisions = { ...noneYet(), other_choice: 0 }
  readonly #probabilities = new Mean()
  readonly #logProbs = new Mean()
  readonly #places = new Map<string, PlaceTally>()

  /** @returns what differs; nothing where the results are the same. */
  add(before: Result, now: Result): readonly Change[] {
    if ('error' in before || 'error' in now) return this.#addErrors(before, now)
    const [old, found] = [partsOf(before.body), partsOf(now.body)]
    const changes: Change[] = []
    for (const name of new Set([...old.keys(), ...found.keys()])) {
      const [one, other] = [old.get(name), found.get(name)]
      if (one === undefined) changes.push({ part: name, kind: 'only now' })
      else if (other === undefined) changes.push({ part: name, kind: 'only before' })
      else changes.push(...this.#comparePart(name, one, other))
    }
    return changes
  }

  /** Places are in alphabetical order of their categories. */
  toJson() {
    return {
      ...this.#counts,
      decisions: { ...this.#decisions, ...this.#probabilities.spread },
      log_probabilities: { tokens: this.#logProbs.count, ...this.#logProbs.spread },
      places: countsOf(this.#places),
    }
  }

  #addErrors(before: Result, now: Result): readonly Change[] {
    const [old, found] = [before, now].map((result) => ('error' in result ? sayError(result.error) : null)) as [
      string | null,
      string | null,
    ]
    if (old === found) this.#counts.errors.same++
    else if (old === null) this.#counts.errors.new++
    else if (found === null) this.#counts.errors.gone++
    else this.#counts.errors.other++
    return old === found ? [] : [{ part: 'error', kind: 'error', before: old, now: found }]
  }

  #comparePart(part: string, one: Part, other: Part): readonly Change[] {
    if (one.kind === 'text' && other.kind === 'text') {
      return [
        ...this.#compareTexts(part, one.text, other.text),
        ...this.#compareLogProbs(part, one.logProbs, other.logProbs),
      ]
    }
    if (one.kind === 'tool calls' && other.kind === 'tool calls') {
      return this.#compareFields(
        part,
        'tool calls',
        this.#counts.tool_calls,
        one.calls.map(plainCall),
        other.calls.map(plainCall),
      )
    }
    if (one.kind === 'places' && other.kind === 'places') return this.#comparePlaces(part, one.places, other.places)
    if (one.kind === 'decision' && other.kind === 'decision') {
      return this.#compareDecisions(part, one.decision, other.decision)
    }
    return this.#compareFields(part, 'value', this.#counts.values, plainPart(one), plainPart(other))
  }

  #compareTexts(part: string, one: string, other: string): readonly Change[] {
    const [json, otherJson] = [jsonIn(one), jsonIn(other)]
    if (json !== null && otherJson !== null)
      return this.#compareFields(part, 'json', this.#counts.json, json, otherJson)
    const [old, found] = [placesIn(one), placesIn(other)]
    const isSame = old.prose === found.prose
    count(this.#counts.texts, isSame)
    return [
      ...(isSame ? [] : [{ part, kind: 'text', ...parting(old.prose, found.prose) } as const]),
      ...(old.places.length + found.places.length === 0 ? [] : this.#comparePlaces(part, old.places, found.places)),
    ]
  }

  /** Of the tokens up to the first that is another one: behind it, they answer other texts. */
  #compareLogProbs(
    part: string,
    one: readonly TokenLogProb[] | null,
    other: readonly TokenLogProb[] | null,
  ): readonly Change[] {
    if (one === null || other === null) return []
    const own = new Mean()
    for (const [index, { token, logprob }] of one.entries()) {
      if (other[index]?.token !== token) break
      own.add(Math.abs(logprob - other[index].logprob))
    }
    this.#logProbs.addAll(own)
    return own.largest === 0 ? [] : [{ part, kind: 'log-probabilities', tokens: own.count, ...own.spread }]
  }

  #compareFields(
    part: string,
    kind: 'json' | 'tool calls' | 'value',
    agreement: Agreement,
    one: unknown,
    other: unknown,
  ): readonly Change[] {
    const { fields, more } = differences(one, other)
    count(agreement, fields.length === 0)
    return fields.length === 0 ? [] : [{ part, kind, fields, more }]
  }

  #comparePlaces(part: string, one: readonly Place[], other: readonly Place[]): readonly Change[] {
    const tallies = tallyPlaces(one, other)
    for (const [category, tally] of tallies) {
      const all = this.#places.get(category) ?? new PlaceTally()
      this.#places.set(category, all)
      all.add(tally)
    }
    const changed = new Map([...tallies].filter(([, { isSame }]) => !isSame))
    return changed.size === 0 ? [] : [{ part, kind: 'places', categories: countsOf(changed) }]
  }

  #compareDecisions(part: string, one: Decision, other: Decision): readonly Change[] {
    const own = new Mean()
    for (const option of new Set([...one.probabilities.keys(), ...other.probabilities.keys()])) {
      own.add(Math.abs((one.probabilities.get(option) ?? 0) - (other.probabilities.get(option) ?? 0)))
    }
    this.#probabilities.addAll(own)
    const isSame = own.largest === 0 && differences(one.rest, other.rest).fields.length === 0
    count(this.#decisions, isSame)
    if (one.choice !== other.choice) this.#decisions.other_choice++
    return isSame ? [] : [{ part, kind: 'decision', before: one.choice, now: other.choice, ...own.spread }]
  }
}

/** A mean and a maximum of numbers that are not kept. */
class Mean {
  count = 0
  largest = 0
  #sum = 0

  add(number: number): void {
    this.count++
    this.#sum += number
    this.largest = Math.max(this.largest, number)
  }

  addAll(other: Mean): void {
    this.count += other.count
    this.#sum += other.#sum
    this.largest = Math.max(this.largest, other.largest)
  }

  /** Null without numbers. */
  get mean(): number | null {
    return this.count === 0 ? null : this.#sum / this.count
  }

  get spread(): Spread {
    return { mean_change: this.mean ?? 0, largest_change: this.largest }
  }
}

class PlaceTally {
  readonly counts = { matched: 0, moved: 0, only_before: 0, only_now: 0 }
  readonly ious = new Mean()
  readonly distances = new Mean()

  get isSame(): boolean {
    return this.counts.moved + this.counts.only_before + this.counts.only_now === 0
  }

  add({ counts, ious, distances }: PlaceTally): void {
    for (const name of Object.keys(counts) as (keyof typeof counts)[]) this.counts[name] += counts[name]
    this.ious.addAll(ious)
    this.distances.addAll(distances)
  }

  match({ kind }: Place, measure: number, hasMoved: boolean): void {
    this.counts.matched++
    if (hasMoved) this.counts.moved++
    if (kind === 'point') this.distances.add(measure)
    else this.ious.add(measure)
  }
}

function countsOf(tallies: ReadonlyMap<string, PlaceTally>): Record<string, PlaceCounts> {
  const sorted = [...tallies].sort(([one], [other]) => (one < other ? -1 : 1))
  return Object.fromEntries(
    sorted.map(([category, { counts, ious, distances }]) => [
      category,
      { ...counts, mean_iou: ious.mean, mean_distance: distances.mean },
    ]),
  )
}

/** Pairs places that are equal, then boxes by IoU and points by distance, each with the nearest first. */
function tallyPlaces(before: readonly Place[], now: readonly Place[]): Map<string, PlaceTally> {
  const tallies = new Map<string, PlaceTally>()
  const tallyOf = ({ category }: Place) => {
    const known = tallies.get(category) ?? new PlaceTally()
    tallies.set(category, known)
    return known
  }
  const equal = Map.groupBy(before, (place) => JSON.stringify(place))
  const others = now.filter((place) => {
    const partner = equal.get(JSON.stringify(place))?.pop()
    if (partner !== undefined) tallyOf(place).match(place, place.kind === 'point' ? 0 : 1, false)
    return partner === undefined
  })
  const left = [...equal.values()].flat()
  for (const isPoint of [true, false]) {
    const [old, found] = [left, others].map((places) =>
      places.filter(({ kind }) => (kind === 'point') === isPoint),
    ) as [Place[], Place[]]
    const pairs = isPoint ? nearest(old, found) : matchBoxes(old.map(toBox), found.map(toBox), LEAST_IOU).pairs
    for (const pair of pairs) {
      tallyOf(found[pair.found]!).match(found[pair.found]!, 'iou' in pair ? pair.iou : pair.distance, true)
    }
    const [known, taken] = [new Set(pairs.map((pair) => pair.known)), new Set(pairs.map((pair) => pair.found))]
    for (const [index, place] of old.entries()) if (!known.has(index)) tallyOf(place).counts.only_before++
    for (const [index, place] of found.entries()) if (!taken.has(index)) tallyOf(place).counts.only_now++
  }
  return tallies
}

/** The box around a place. What must be equal is its label. */
function toBox(place: Place): DetectedBox {
  const [xs, ys] = [place.points.map(({ x }) => x), place.points.map(({ y }) => y)]
  return {
    label: sortOf(place),
    ...{ left: Math.min(...xs), top: Math.min(...ys), right: Math.max(...xs), bottom: Math.max(...ys) },
  }
}

function nearest(before: readonly Place[], now: readonly Place[]) {
  const candidates = before.flatMap((one, known) =>
    now.flatMap((other, found) => {
      if (sortOf(one) !== sortOf(other)) return []
      const [from, to] = [one.points[0]!, other.points[0]!]
      return [{ known, found, distance: Math.hypot(to.x - from.x, to.y - from.y) }]
    }),
  )
  return distinctPairs(candidates.sort((one, other) => one.distance - other.distance))
}

function sortOf({ kind, category, within }: Place): string {
  return JSON.stringify([kind, category, within])
}

function count(agreement: Agreement, isSame: boolean): void {
  agreement.compared++
  if (isSame) agreement.same++
}

function sayError({ status, code, message }: Extract<Result, { error: unknown }>['error']): string {
  return [status, code, message && JSON.stringify(message)].filter((piece) => piece !== null && piece !== '').join(' ')
}

function plainCall({ name, arguments: given }: ToolCall): unknown {
  return { name, arguments: (typeof given === 'string' ? jsonIn(given) : null) ?? given }
}

function plainPart(part: Part): unknown {
  return part.kind === 'value' ? part.value : part
}

/** The object or the list that a text is; null for any other text. */
function jsonIn(text: string): object | null {
  if (!/^\s*[{[]/.test(text)) return null
  try {
    const value: unknown = JSON.parse(text, exactly as (key: string, value: unknown) => unknown)
    return typeof value === 'object' ? value : null
  } catch {
    return null
  }
}

/** Numbers that JavaScript would round keep their digits: ids that differ stay different. */
function exactly(_key: string, value: unknown, { source }: { readonly source?: string }): unknown {
  return typeof value === 'number' && !Number.isSafeInteger(value) && /^-?\d+$/.test(source!) ? source : value
}

/** What differs between two values; the order of an object's keys does not. */
function differences(one: unknown, other: unknown): { readonly fields: readonly Difference[]; readonly more: number } {
  const fields: Difference[] = []
  let more = 0
  // Without recursion: a value may be nested deep.
  const stack: [path: string, one: unknown, other: unknown][] = [['', one, other]]
  for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
    const [path, before, now] = next
    if (before === now) continue
    if (Array.isArray(before) && Array.isArray(now)) {
      for (let index = Math.max(before.length, now.length) - 1; index >= 0; index--) {
        stack.push([`${path}[${index}]`, before[index], now[index]])
      }
    } else if (isRecord(before) && isRecord(now)) {
      for (const key of [...new Set([...Object.keys(before), ...Object.keys(now)])].reverse()) {
        stack.push([path === '' ? key : `${path}.${key}`, ownOf(before, key), ownOf(now, key)])
      }
    } else if (fields.length < MOST_FIELDS) fields.push({ path, before, now })
    else more++
  }
  return { fields, more }
}

function ownOf(fields: Readonly<Record<string, unknown>>, key: string): unknown {
  return Object.hasOwn(fields, key) ? fields[key] : undefined
}

/** Characters of a text that are shown from where it differs, and before. */
const SHOWN = { before: 16, from: 40 }

/** Where two texts part. */
function parting(one: string, other: string): { readonly word: number; readonly before: string; readonly now: string } {
  let at = 0
  while (at < one.length && one[at] === other[at]) at++
  // A word is shown whole, unless it is long or there are no words.
  let start = at
  while (start > 0 && at - start < SHOWN.before && !/\s/.test(one[start - 1]!)) start--
  const shown = (text: string) => {
    const cut = text.slice(start, start + SHOWN.from)
    const whole = cut.length < text.length - start ? `${cut.replace(/\s+\S*$/, '')} …` : cut
    return whole.toWellFormed()
  }
  return { word: one.slice(0, start).split(/\s+/).filter(Boolean).length + 1, before: shown(one), now: shown(other) }
}
