import { computed, signal } from '@preact/signals'
import { type Attachment, withUploads } from '../media/attachment.ts'
import { attachments } from '../media/attachments.ts'
import { newId } from '../new-id.ts'
import { callJson } from '../server/call.ts'
import { model } from '../server/connection.ts'
import { type Failure, type FailureKind, isAbort, toFailure } from '../server/failure.ts'
import { type Wait, withPatience } from '../server/patience.ts'
import { bodyOf, type DetectOptions } from './request.ts'
import { countEdits, results, takeFound } from './results.ts'
import { addCategories, categories, categoryDraft, isNegative, searchable, shownImage } from './targets.ts'
import { follow, shownVideo, type TracksResponse } from './tracks.ts'

interface Pixel {
  readonly x: number
  readonly y: number
}

interface DetectResponse {
  readonly detections: readonly {
    readonly mention: string
    readonly confidence?: number
    readonly point?: Pixel
    readonly point_box?: { readonly top_left: Pixel; readonly bottom_right: Pixel }
  }[]
  readonly categories?: readonly { readonly mention: string | null; readonly complete: number | null }[]
  readonly confidence?: { readonly calibrated: boolean }
  readonly finish_reason: string
}

/** A search through pictures, one after the other. Those that are done stay when it stops. */
interface Search {
  readonly status: 'running' | 'stopped' | 'done'
  readonly total: number
  readonly left: readonly Attachment[]
  /** Why it waits; null while it does not. */
  readonly wait: Wait | null
  /** Failures of single pictures, while the search goes on; or of the one that it stopped at. */
  readonly failures: readonly { readonly picture: Attachment; readonly failure: Failure }[]
  /** How many edits by hand the results took the place of. */
  readonly replacedEdits: number
}

export const DEFAULT_OPTIONS: DetectOptions = { output: 'box', thinks: false, confidence: 'off' }
export const options = signal(DEFAULT_OPTIONS)
export const scope = signal<'one' | 'all'>('one')
export const search = signal<Search | null>(null)
let abort: AbortController | null = null
/** What is wrong with one picture is not wrong with the next. */
const OF_ONE_PICTURE: ReadonlySet<FailureKind> = new Set(['request', 'lost', 'unanswered'])

/** What the chosen model can be asked for; empty when it finds no objects. */
export const outputs = computed(() => {
  const known = new Set(model.value?.output_formats ?? [])
  return (['box', 'point'] as const).filter((format) => known.has(format))
})

/** The pictures that a search would go through. */
export const inScope = computed<readonly Attachment[]>(() => {
  if (shownVideo.value !== null) return [shownVideo.value]
  if (scope.value === 'all' && searchable.value.length > 1) return searchable.value
  return shownImage.value === null || isNegative(shownImage.value.id) ? [] : [shownImage.value]
})

/** Searches the pictures in scope, or those that are left of a search that stopped. */
export async function startSearch(pictures: readonly Attachment[] = inScope.value): Promise<void> {
  addCategories(categoryDraft.value)
  categoryDraft.value = ''
  abort?.abort()
  const own = new AbortController()
  abort = own
  let state: Search = {
    status: 'running',
    total: pictures.length,
    left: pictures,
    wait: null,
    failures: [],
    replacedEdits: 0,
  }
  const update = (change: Partial<Search>) => {
    state = { ...state, ...change }
    if (abort === own) search.value = state
  }
  update({})
  const output = outputs.value.includes(options.value.output) ? options.value.output : (outputs.value[0] ?? 'box')
  let unanswered: readonly Attachment[] = []
  for (const picture of pictures) {
    // Taken off the stage meanwhile.
    if (!attachments.value.some(({ id }) => id === picture.id)) continue
    try {
      const edits = await searchOne(picture, { ...options.value, output }, own.signal, (wait) => update({ wait }))
      update({ replacedEdits: state.replacedEdits + edits })
      unanswered = []
    } catch (error) {
      if (isAbort(error)) return update({ status: 'stopped', wait: null })
      const failure = toFailure(error)
      const failures = [...state.failures, { picture, failure }]
      const before = unanswered
      unanswered = failure.kind === 'unanswered' ? [...before, picture] : []
      // A proxy may refuse a picture for its size; where the connection breaks twice in a row, it would break again.
      if (!OF_ONE_PICTURE.has(failure.kind) || unanswered.length > 1)
        return update({ status: 'stopped', failures, left: [...before, ...state.left], wait: null })
      update({ failures })
    }
    update({ left: state.left.filter(({ id }) => id !== picture.id), wait: null })
  }
  update({ status: 'done' })
}

export function stopSearch(): void {
  abort?.abort()
}

/** Gives up the search for good: another session follows. */
export function forgetSearch(): void {
  abort?.abort()
  abort = null
  search.value = null
}

/** @returns how many edits by hand the result takes the place of. */
async function searchOne(
  picture: Attachment,
  chosen: DetectOptions,
  signal: AbortSignal,
  onWait: (wait: Wait | null) => void,
): Promise<number> {
  const asked = categories.value
  const asker = model.value?.id ?? null
  let started = 0
  const ask = async <Response>(options: DetectOptions, state?: string | null) => {
    const call = (body: object) => {
      started = performance.now()
      return callJson<Response>('/v1/detect', { method: 'POST', body, signal })
    }
    const response = await withUploads(
      () => bodyOf(picture, options, state),
      (body) => withPatience(() => call(body), onWait, signal),
    )
    signal.throwIfAborted()
    return response
  }
  if (picture.kind === 'video') {
    const boxes = { ...chosen, output: 'box' } as const
    await follow(picture, (state) => ask<TracksResponse>(boxes, state))
    return 0
  }
  const response = await ask<DetectResponse>(chosen)
  const { detections, categories: rated, confidence: rating, finish_reason } = response
  const milliseconds = performance.now() - started
  const before = results.value.get(picture.id)
  const found = detections.map(({ mention: label, point, point_box: box, confidence }) => {
    const [from, to] = box ? [box.top_left, box.bottom_right] : [point!, point!]
    const kind = box ? ('box' as const) : ('point' as const)
    const place = { left: from.x, top: from.y, right: to.x, bottom: to.y }
    return { id: newId(), label, kind, ...place, ...(confidence === undefined ? {} : { confidence }) }
  })
  takeFound(picture.id, {
    found,
    asked,
    model: asker,
    rating: rating
      ? {
          isCalibrated: rating.calibrated,
          whole: (rated ?? []).map(({ mention: label, complete: chance }) => ({ label, chance })),
        }
      : null,
    isCut: finish_reason !== 'complete',
    milliseconds,
  })
  return before ? countEdits(before) : 0
}
