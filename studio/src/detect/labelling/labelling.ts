import { computed, signal } from '@preact/signals'
import { chosenMark } from '../../marks/mark.ts'
import { select } from '../../media/attachments.ts'
import { shownScale } from '../../stage/image-stage.tsx'
import { type Handle, reshape } from '../../stage/reshape.ts'
import { chanceText, counted } from '../../widgets/quantities.ts'
import { changeSpot, redo, removeSpot, results, setReviewed, undo } from '../results.ts'
import {
  addedKind,
  chosenSpot,
  corner,
  drawing,
  hiddenLabels,
  knownLabels,
  lastLabel,
  nameNew,
  stageTool,
  toggleDrawing,
} from '../stage.ts'
import { sureSpots } from '../sureness.ts'
import { isNegative, searchable, shownImage } from '../targets.ts'
import { fitToEdges } from './fit.ts'
import { isMac } from './keys.ts'
import { comparePlaces, placeOf, toMark } from './spot.ts'

/** The letters that are typed to find a class; null while no class is searched for. */
export const classFilter = signal<string | null>(null)

/** Classes that contain these letters, best match first. */
export const foundClasses = computed<readonly string[]>(() => {
  const text = (classFilter.value ?? '').trim().toLowerCase()
  const rank = (label: string) => {
    const name = label.toLowerCase()
    return name === text ? 0 : name.startsWith(text) ? 1 : 2
  }
  const fitting = knownLabels.value.filter((label) => label.toLowerCase().includes(text))
  return text === '' ? fitting : fitting.toSorted((one, other) => rank(one) - rank(other))
})

export const reviewedCount = computed(
  () => searchable.value.filter(({ id }) => results.value.get(id)?.isReviewed).length,
)

/** What is on the picture, in reading order. A moved object keeps its turn, so that going through all of them misses none. */
const inOrder = computed(() => {
  const result = shownImage.value && results.value.get(shownImage.value.id)
  if (!result) return []
  const found = new Map(result.found.map((spot) => [spot.id, spot]))
  return sureSpots(result)
    .filter(({ label }) => !hiddenLabels.value.has(label))
    .toSorted((one, other) => comparePlaces(found.get(one.id) ?? one, found.get(other.id) ?? other))
})

/** For screen readers: what is chosen, or else which picture is shown. */
export const spokenState = computed(() => {
  if (classFilter.value !== null) {
    const [first] = foundClasses.value
    return first === undefined ? 'A new class' : `${first}, first of ${foundClasses.value.length}`
  }
  const chosen = chosenSpot.value?.spot
  if (chosen) {
    const { id, kind, label, left, top, right, bottom, confidence } = chosen
    const index = inOrder.value.findIndex((spot) => spot.id === id)
    const size = kind === 'box' ? `, ${right - left} by ${bottom - top}` : ''
    const sure = confidence === undefined ? '' : `, ${chanceText(confidence)} sure`
    return `${index + 1} of ${inOrder.value.length}: ${label}, at ${left}, ${top}${size}${sure}`
  }
  const picture = shownImage.value
  const result = picture && results.value.get(picture.id)
  if (!result) return ''
  const index = searchable.value.indexOf(picture)
  const place = `Picture ${index + 1} of ${searchable.value.length}: ${picture.name}`
  return `${place}, ${counted(result.spots.length, 'object')}${result.isReviewed ? ', reviewed' : ''}`
})

/** Where the arrows act on the picture or on what is chosen. */
export function focusStage(): void {
  document.querySelector<HTMLElement>('.image-stage')?.focus()
}

/** Marks the picture as reviewed and shows the next one that is not. */
export function accept(): void {
  const picture = shownImage.value
  if (picture === null || isNegative(picture.id)) return
  setReviewed(picture.id, true)
  const index = searchable.value.indexOf(picture)
  const after = [...searchable.value.slice(index + 1), ...searchable.value.slice(0, index)]
  const next = after.find(({ id }) => !results.value.get(id)?.isReviewed) ?? picture
  show(next.id)
}

export function showNeighbour(by: 1 | -1): void {
  const index = searchable.value.findIndex(({ id }) => id === shownImage.value?.id)
  const next = searchable.value[index + by]
  if (next) show(next.id)
}

function show(picture: string): void {
  chosenMark.value = null
  drawing.value = null
  select(picture)
  focusStage()
}

/** Names what is chosen, or else what is drawn next. */
export function giveClass(label: string): void {
  lastLabel.value = label
  if (chosenSpot.value) changeSpot(chosenSpot.value.picture.id, chosenSpot.value.spot.id, { label })
}

/** @returns whether there is another one, when it does not begin again */
function chooseNext(by: 1 | -1, isRound = true): boolean {
  const count = inOrder.value.length
  const index = inOrder.value.findIndex(({ id }) => id === chosenMark.value)
  const next = index < 0 && by < 0 ? count - 1 : index + by
  const spot = inOrder.value[isRound ? (next + count) % count : next]
  if (spot === undefined) return false
  chosenMark.value = spot.id
  corner.value = 'se'
  focusStage()
  return true
}

const ARROWS: Readonly<Record<string, readonly [x: number, y: number]>> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
}

/** Moves what is chosen, or one of its corners, by a pixel of the screen, and at least one of the picture. */
function nudge(event: KeyboardEvent, handle: Handle | null): void {
  const { spot, picture } = chosenSpot.value!
  if (handle !== null && spot.kind === 'point') return
  const [x, y] = ARROWS[event.key]!
  const pixels = Math.max(1, Math.round(1 / shownScale.value)) * (event.shiftKey ? 10 : 1)
  const by = { x: (x * pixels) / picture.width, y: (y * pixels) / picture.height }
  const place = placeOf(reshape(toMark(spot, picture).points, handle, by), picture)
  // A key that is held is one step to undo.
  if (place) changeSpot(picture.id, spot.id, place, event.repeat)
}

async function fit(): Promise<void> {
  const { spot, picture } = chosenSpot.value!
  if (spot.kind === 'point') return
  // A picture that the browser cannot decode has no edges.
  const place = await fitToEdges(picture, spot).catch(() => spot)
  // A large picture takes a moment: a change by hand in that time wins.
  if (results.value.get(picture.id)?.spots.includes(spot)) changeSpot(picture.id, spot.id, place)
}

function remove(): void {
  const { spot, picture } = chosenSpot.value!
  chosenMark.value = null
  removeSpot(picture.id, spot.id)
}

function draw(): void {
  toggleDrawing(addedKind.value)
  nameNew.value = knownLabels.value.length === 0
}

function findClass(): void {
  classFilter.value = ''
}

/** Keys that work anywhere in this mode but in a field, which has its own. */
export function onKey(event: KeyboardEvent): void {
  const target = event.target as Element
  if (event.defaultPrevented || document.querySelector('dialog[open]') !== null) return
  if (target.closest('input, textarea, select')) {
    if (event.key !== 'Escape' || drawing.value === null) return
    drawing.value = null
  } else {
    const act = actionOf(event, target)
    if (act === undefined) return
    act()
  }
  event.preventDefault()
}

function actionOf(event: KeyboardEvent, target: Element): (() => unknown) | undefined {
  const { key, altKey, shiftKey } = event
  const hasCommand = event.ctrlKey || event.metaKey
  const letter = key.toLowerCase()
  if (hasCommand && !altKey && letter === 'z') return shiftKey ? redo : undo
  if (hasCommand && !altKey && letter === 'y') return redo
  if (key in ARROWS) {
    const resizes = isMac ? altKey && !hasCommand : event.ctrlKey && !altKey && !event.metaKey
    // The rows of the table are walked through by arrows.
    const moves = !hasCommand && !altKey && !target.closest('table')
    if (chosenSpot.value === null || !(resizes || moves)) return undefined
    return () => nudge(event, resizes ? corner.value : null)
  }
  if (hasCommand || altKey || shownImage.value === null) return undefined
  if (key === 'Tab') {
    // The last one lets the focus go on.
    const isOnStage = target.matches('.image-stage') && chosenSpot.value !== null
    return isOnStage && chooseNext(shiftKey ? -1 : 1, false) ? () => {} : undefined
  }
  // Space also presses a button.
  if (key === ' ') return target.closest('button, a, summary') ? undefined : accept
  // By the key's place: not all layouts have digits without Shift.
  const digit = /^(?:Digit|Numpad)([0-9])$/.exec(event.code)?.[1]
  if (digit !== undefined) {
    // 0 also shows all of the picture.
    if (digit === '0' && chosenSpot.value === null && drawing.value === null) return undefined
    const label = knownLabels.value[digit === '0' ? 9 : Number(digit) - 1]
    return label === undefined ? undefined : () => giveClass(label)
  }
  const chosen = ON_CHOSEN[key.length === 1 ? letter : key]
  if (chosen) return chosenSpot.value ? chosen : undefined
  return ANYWHERE[key.length === 1 ? letter : key]
}

function turnCorner(): void {
  corner.value = corner.value === 'se' ? 'nw' : 'se'
}

const ON_CHOSEN: Readonly<Record<string, () => unknown>> = {
  Delete: remove,
  Backspace: remove,
  e: fit,
  x: turnCorner,
}

const ANYWHERE: Readonly<Record<string, () => unknown>> = {
  n: () => chooseNext(1),
  p: () => chooseNext(-1),
  c: findClass,
  w: draw,
  s: accept,
  d: () => showNeighbour(1),
  a: () => showNeighbour(-1),
  Escape() {
    drawing.value = null
    chosenMark.value = null
  },
}

export const labellingTool = computed(() => ({ ...stageTool.value, onKey }))
