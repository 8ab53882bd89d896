import { ConfigError } from '../../config/config.ts'
import { isRecord } from '../../lib/json/parse-json.ts'
import { print } from '../asking/screen.ts'
import { forTerminal } from '../for-terminal.ts'
import { toTable } from '../output.ts'
import { type Change, Comparison } from './comparison.ts'
import type { Difference } from './differences.ts'
import type { Spread } from './mean.ts'
import type { PlaceCounts } from './place-tally.ts'
import type { Result, ResultFiles } from './result-files.ts'

/**
 * Prints a line for each request whose result has changed, and a summary of all changes.
 * @param asJson whether to print for programs: each line is an object, the last one the summary.
 * @returns whether anything has changed.
 */
export async function compareResults(before: ResultFiles, now: ResultFiles, asJson: boolean): Promise<boolean> {
  const comparison = new Comparison()
  const runs = [new Origin(), new Origin()] as const
  let [changed, onlyNow, onlyBefore] = [0, 0, 0]
  const say = (id: string, changes: readonly Change[]) => {
    const line = asJson ? JSON.stringify({ id, changes }) : `${forLine(id)}: ${changes.map(sayChange).join('; ')}`
    return print(`${line}\n`)
  }
  const compared = [...now.ids].filter(before.has).length
  if (compared === 0)
    throw new ConfigError(`no request of ${now.names} is in ${before.names}: are they of the same batch?`)
  for (const id of now.ids) {
    if (!before.has(id)) {
      onlyNow++
      await say(id, [{ part: 'request', kind: 'only now' }])
      continue
    }
    const [old, found] = [before.find(id), now.find(id)]
    runs[0].add(old)
    runs[1].add(found)
    const changes = comparison.add(old, found)
    if (changes.length === 0) continue
    changed++
    await say(id, changes)
  }
  for (const id of before.ids) {
    if (now.has(id)) continue
    onlyBefore++
    await say(id, [{ part: 'request', kind: 'only before' }])
  }
  const summary = summaryOf({ compared, changed, only_before: onlyBefore, only_now: onlyNow }, runs, comparison)
  await print(asJson ? `${JSON.stringify({ summary })}\n` : saySummary(summary))
  return changed + onlyNow + onlyBefore > 0
}

interface Counts {
  /** Number of requests in both, and of those whose results differ. */
  readonly compared: number
  readonly changed: number
  readonly only_before: number
  readonly only_now: number
}

function summaryOf(counts: Counts, [before, now]: readonly [Origin, Origin], comparison: Comparison) {
  return { ...counts, before: before.toJson(), now: now.toJson(), ...comparison.toJson() }
}

type Summary = ReturnType<typeof summaryOf>

/** The most different names to list. */
const MOST_NAMES = 5

/** The models and fingerprints in the responses, if they have them. */
class Origin {
  readonly #models = new Set<string>()
  readonly #fingerprints = new Set<string>()

  add(result: Result): void {
    const { model, system_fingerprint: fingerprint } = 'body' in result && isRecord(result.body) ? result.body : {}
    if (typeof model === 'string' && this.#models.size < MOST_NAMES) this.#models.add(model)
    if (typeof fingerprint === 'string' && this.#fingerprints.size < MOST_NAMES) this.#fingerprints.add(fingerprint)
  }

  toJson() {
    return { models: [...this.#models].sort(), system_fingerprints: [...this.#fingerprints].sort() }
  }
}

function saySummary(summary: Summary): string {
  const { compared, changed, only_before: onlyBefore, only_now: onlyNow, before, now, errors, decisions } = summary
  const lines = [
    changed === 0
      ? `${compared} of ${compared} requests have the same results`
      : `${changed} of ${compared} requests have other results`,
    ...namesLine('model', before.models, now.models),
    ...namesLine('system_fingerprint', before.system_fingerprints, now.system_fingerprints),
  ]
  if (onlyBefore + onlyNow > 0) lines.push(`requests: ${onlyBefore} only before, ${onlyNow} only now`)
  for (const [name, { compared, same }] of [
    ['texts', summary.texts],
    ['JSON', summary.json],
    ['tool calls', summary.tool_calls],
    ['other fields', summary.values],
    ['decisions', decisions],
  ] as const) {
    const isWorthSaying = name === 'other fields' ? same < compared : compared > 0
    if (isWorthSaying) lines.push(`${name}: ${same} of ${compared} the same`)
  }
  if (decisions.compared > 0) lines.push(`choices: ${decisions.other_choice} of ${decisions.compared} changed`)
  lines.push(...spreadLine('probabilities', decisions), ...spreadLine('log-probabilities', summary.log_probabilities))
  if (errors.new + errors.gone + errors.other + errors.same > 0) {
    lines.push(`errors: ${errors.new} new, ${errors.gone} gone, ${errors.other} other ones, ${errors.same} the same`)
  }
  const places = Object.entries(summary.places)
  if (places.length > 0) lines.push(placeTable(places).trimEnd())
  return `${changed + onlyBefore + onlyNow > 0 ? '\n' : ''}${lines.join('\n')}\n`
}

function spreadLine(name: string, { mean_change: mean, largest_change: largest }: Spread): readonly string[] {
  return largest === 0 ? [] : [`${name}: changed by ${shown(mean)} on average, ${shown(largest)} at most`]
}

function namesLine(name: string, before: readonly string[], now: readonly string[]): readonly string[] {
  const [old, found] = [before, now].map((names) => names.map(forLine).join(', ') || 'none')
  return old === found ? [] : [`${name}: ${old} before, ${found} now`]
}

/** The most categories with a row of their own. */
const MOST_ROWS = 20

function placeTable(places: readonly (readonly [string, PlaceCounts])[]): string {
  const columns: readonly (readonly [title: string, cell: (counts: PlaceCounts) => number | null])[] = [
    ['MATCHED', ({ matched }) => matched],
    ['MOVED', ({ moved }) => moved],
    ['ONLY BEFORE', (counts) => counts.only_before],
    ['ONLY NOW', (counts) => counts.only_now],
    ['MEAN IOU', (counts) => counts.mean_iou],
    ['MEAN DISTANCE', (counts) => counts.mean_distance],
  ]
  const used = columns.filter(([, cell]) => places.some(([, counts]) => cell(counts) !== null))
  const rows = places.slice(0, MOST_ROWS).map(([category, counts]) => {
    const cells = used.map(([, cell]) => cell(counts))
    return [forLine(category), ...cells.map((number) => (number === null ? '-' : shown(number)))]
  })
  if (places.length > MOST_ROWS) rows.push([`and ${places.length - MOST_ROWS} more`, ...used.map(() => '')])
  return toTable(['PLACES', ...used.map(([title]) => title)], rows)
}

function sayChange(change: Change): string {
  const { part, kind } = change
  switch (kind) {
    case 'text':
      return `${forLine(part)} differs at word ${change.word}: ${quoted(change.before)} before, ${quoted(change.now)} now`
    case 'json':
    case 'tool calls':
    case 'value': {
      const more = change.more === 0 ? '' : ` and ${change.more} more`
      return change.fields.map((field) => sayField(part, field)).join(', ') + more
    }
    case 'places':
      return Object.entries(change.categories)
        .map(([category, counts]) => sayPlaces(category || part, counts))
        .join('; ')
    case 'decision': {
      const { before, now, largest_change: largest } = change
      const choice = before === now ? `still ${forLine(now)}` : `${forLine(before)} before, ${forLine(now)} now`
      return `${forLine(part)}: ${choice}, probabilities changed by up to ${shown(largest)}`
    }
    case 'log-probabilities':
      return `${forLine(part)}: log-probabilities of ${change.tokens} tokens changed by up to ${shown(change.largest_change)}`
    case 'error':
      return `${forLine(change.before ?? 'no error')} before, ${forLine(change.now ?? 'no error')} now`
    default:
      return part === 'request' ? kind : `${forLine(part)} ${kind}`
  }
}

function sayField(part: string, { path, before, now }: Difference): string {
  const place = path === '' ? part : `${part} ${path}`
  return `${forLine(place)}: ${quoted(before)} before, ${quoted(now)} now`
}

function sayPlaces(category: string, counts: PlaceCounts): string {
  const { matched, moved, only_before: onlyBefore, only_now: onlyNow, mean_iou: iou, mean_distance: distance } = counts
  const means = [
    ...(iou === null ? [] : [`mean IoU ${shown(iou)}`]),
    ...(distance === null ? [] : [`mean distance ${shown(distance)}`]),
  ]
  const words = [
    ...(moved > 0 ? [`${moved} of ${matched} moved, ${means.join(', ')}`] : matched > 0 ? [`${matched} the same`] : []),
    ...(onlyBefore > 0 ? [`${onlyBefore} only before`] : []),
    ...(onlyNow > 0 ? [`${onlyNow} only now`] : []),
  ]
  return `${forLine(category)}: ${words.join(', ')}`
}

/** Three digits, but 0 or 1 only for exactly these values. */
function shown(number: number): string {
  if (Number.isInteger(number)) return String(number)
  const text = number.toFixed(3)
  if (text === '0.000') return number.toExponential(0)
  return text === '1.000' && number < 1 ? '0.999' : text
}

const LONGEST_VALUE = 60

function quoted(value: unknown): string {
  // A number in JSON may be infinite here, which JSON cannot express.
  const text = typeof value === 'number' ? String(value) : (JSON.stringify(value) ?? 'nothing')
  return forLine(text.length > LONGEST_VALUE ? `${text.slice(0, LONGEST_VALUE).toWellFormed()} …` : text)
}

function forLine(text: string): string {
  return forTerminal(text.replaceAll('\n', ' '))
}
