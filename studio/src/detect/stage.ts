import { computed, signal } from '@preact/signals'
import { chosenMark, type Mark } from '../marks/mark.ts'
import type { Attachment } from '../media/attachment.ts'
import { newId } from '../new-id.ts'
import type { MarkEditor, StageTool } from '../stage/image-stage.tsx'
import type { Handle } from '../stage/reshape.ts'
import { comparisons } from './compare/comparison.ts'
import { placeOf, type Spot, toMark } from './labelling/spot.ts'
import { addSpot, changeSpot, results } from './results.ts'
import { options } from './search.ts'
import { isSure } from './sureness.ts'
import { categories, type Example, examples, negatives, nextExampleLabel, shownImage } from './targets.ts'
import { trackMarks } from './tracks.ts'

/** What a drag or a click on the picture makes; null when it moves the picture and chooses marks. */
export const drawing = signal<'example' | 'box' | 'point' | null>(null)
/** The example that was drawn last: its name can be typed at once. */
export const newExample = signal<string | null>(null)
/** The spot that was added last, likewise. */
export const newSpot = signal<string | null>(null)
/** Whether the name of what is drawn next is typed at once. */
export const nameNew = signal(true)
/** Which corner of the chosen box the keys move. */
export const corner = signal<Handle & ('se' | 'nw')>('se')
/** The name that was given last: the next one is likely the same. */
export const lastLabel = signal<string | null>(null)
/** Labels whose marks are not shown. */
export const hiddenLabels = signal<ReadonlySet<string>>(new Set())

/** All marks on a picture. */
export function marksOn(picture: Attachment): readonly Mark[] {
  const spots = results.value.get(picture.id)?.spots ?? []
  const outcome = comparisons.value?.outcomes.get(picture.id)
  const shown = spots.flatMap((spot) => {
    if (hiddenLabels.value.has(spot.label)) return []
    const role = outcome && (outcome.matched.has(spot.id) ? ('matched' as const) : ('extra' as const))
    return [toMark(spot, picture, isSure(spot) ? role : 'unsure')]
  })
  const missed = outcome?.missed.filter(({ label }) => !hiddenLabels.value.has(label)) ?? []
  const own = examples.value.filter(({ media }) => media === picture.id)
  return [
    ...own.map((example) => exampleMark(example, picture)),
    ...missed.map((spot) => toMark(spot, picture, 'missed')),
    ...shown,
  ]
}

export const stageMarks = computed<readonly Mark[]>(() => {
  const negative = negatives.value.map(({ id }): Mark => {
    const points = [
      { x: 0, y: 0 },
      { x: 1, y: 1 },
    ]
    return { id: `${id} negative`, media: id, label: 'shows none', kind: 'box', points, role: 'negative' }
  })
  return [...negative, ...(shownImage.value === null ? trackMarks.value : marksOn(shownImage.value))]
})

const exampleMarks = new WeakMap<Example, Mark>()

function exampleMark(example: Example, picture: Attachment): Mark {
  const known = exampleMarks.get(example)
  if (known) return known
  const mark = toMark({ kind: 'box', ...example }, picture, 'positive')
  exampleMarks.set(example, mark)
  return mark
}

/** The spot that is chosen, with its picture. */
export const chosenSpot = computed<{ readonly spot: Spot; readonly picture: Attachment } | null>(() => {
  const picture = shownImage.value
  const spot = picture && results.value.get(picture.id)?.spots.find(({ id }) => id === chosenMark.value)
  return spot ? { spot, picture } : null
})

/** What a spot may be called, in an order that no correction changes: the first ten have keys. */
export const knownLabels = computed<readonly string[]>(() => {
  const all = [...results.value.values()]
  const labelsOf = (spots: readonly Spot[]) => spots.map(({ label }) => label)
  const given = [
    all.flatMap(({ asked }) => asked),
    all.flatMap(({ found }) => labelsOf(found)),
    all.flatMap(({ spots }) => labelsOf(spots)),
  ]
  return [...new Set([...categories.value, ...given.flat()])]
})

const editor: MarkEditor = {
  canEdit: ({ id }) => chosenSpot.peek()?.spot.id === id,
  onChange({ id }, points) {
    const picture = shownImage.value
    const place = picture && placeOf(points, picture)
    if (place) changeSpot(picture.id, id, place)
  },
}

/** Begins to draw, or leaves it when that is what the stage does. */
export function toggleDrawing(kind: 'example' | 'box' | 'point'): void {
  if (chosenSpot.value) lastLabel.value = chosenSpot.value.spot.label
  chosenMark.value = null
  drawing.value = drawing.value === kind ? null : kind
}

export const stageTool = computed<StageTool>(() => {
  if (drawing.value === 'example') {
    return { hint: 'Drag a box around an example', onBox: (picture, from, to) => addExample(picture, [from, to]) }
  }
  if (drawing.value === 'box') {
    return { hint: `Drag a box: ${drawnLabel()}`, onBox: (picture, from, to) => addDrawn(picture, [from, to]) }
  }
  if (drawing.value === 'point') {
    return { hint: `Click a place: ${drawnLabel()}`, onPoint: (picture, at) => addDrawn(picture, [at]) }
  }
  return { editor, corner: corner.value }
})

/** What adding by hand makes: what the search finds. */
export const addedKind = computed<'box' | 'point'>(() => {
  const kinds = shownImage.value && results.value.get(shownImage.value.id)?.spots.map(({ kind }) => kind)
  return kinds?.[0] ?? options.value.output
})

function addExample(picture: Attachment, points: Mark['points']): void {
  const place = placeOf(points, picture)
  if (place === null) return
  const { kind: _, ...box } = place
  const id = newId()
  examples.value = [...examples.value, { id, media: picture.id, label: nextExampleLabel(), ...box }]
  newExample.value = id
  drawing.value = null
}

function drawnLabel(): string {
  return lastLabel.value ?? knownLabels.value[0] ?? 'object'
}

function addDrawn(picture: Attachment, points: Mark['points']): void {
  const place = placeOf(points, picture)
  if (place === null) return
  const label = drawnLabel()
  const id = newId()
  addSpot(picture.id, { id, label, ...place })
  lastLabel.value = label
  newSpot.value = nameNew.value ? id : null
  chosenMark.value = id
  drawing.value = null
}
