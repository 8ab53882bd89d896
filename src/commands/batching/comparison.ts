import { getOrMake } from '../../lib/get-or-make.ts'
import { type Difference, differences, jsonIn, parting } from './differences.ts'
import { Mean, type Spread } from './mean.ts'
import { countsOf, type PlaceCounts, PlaceTally, tallyPlaces } from './place-tally.ts'
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

  /** @returns the differences; none if the results are the same. */
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

  /** Places are sorted by category. */
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

  /** Compares the tokens up to the first that differs: after it, they continue different texts. */
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
    for (const [category, tally] of tallies) getOrMake(this.#places, category, () => new PlaceTally()).add(tally)
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
