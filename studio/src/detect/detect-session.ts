import type { Attachment } from '../media/attachment.ts'
import { newId } from '../new-id.ts'
import { keepInSessions } from '../session/registry.ts'
import { listOf, numberOf, optionsOf, orNull, recordOf, textOf } from '../session/shape.ts'
import type { Spot } from './labelling/spot.ts'
import { CONFIDENCES, type DetectOptions } from './request.ts'
import { type Rating, type Result, replaceResults, results } from './results.ts'
import { DEFAULT_OPTIONS, forgetSearch, options } from './search.ts'
import {
  attachmentsById,
  categories,
  categoryDraft,
  type Example,
  examples,
  isNegative,
  replaceTargets,
} from './targets.ts'
import { type Tracked, tracked } from './tracks.ts'

keepInSessions({
  name: 'detect',

  save(keep) {
    const known = attachmentsById()
    const idOf = (media: string) => keep(known.get(media)!)
    const pictures = [...known.values()].filter(({ id }) => results.value.has(id) || isNegative(id))
    const own = examples.value.filter(({ media }) => known.has(media))
    const videos = [...tracked.value].filter(([id]) => known.has(id))
    const isPlain = options.value === DEFAULT_OPTIONS && categoryDraft.value === ''
    if (isPlain && pictures.length + own.length + videos.length + categories.value.length === 0) return undefined
    return {
      options: options.value,
      draft: categoryDraft.value,
      categories: categories.value,
      examples: own.map((example) => ({ ...example, media: idOf(example.media) })),
      pictures: pictures.map(({ id }) => ({
        media: idOf(id),
        isNegative: isNegative(id),
        result: results.value.get(id) ?? null,
      })),
      videos: videos.map(([id, tracks]) => ({ media: idOf(id), tracks })),
    }
  },

  restore(saved, find) {
    forgetSearch()
    options.value = DEFAULT_OPTIONS
    replaceTargets({ categories: [], examples: [], negatives: [] })
    replaceResults(new Map())
    tracked.value = new Map()
    if (saved === undefined) return
    const { options: given, draft, categories: names, examples: kept, pictures: list, videos = [] } = recordOf(saved)
    const mediaOf = (value: unknown): Attachment | null => find(textOf(value))
    const pictures = listOf(list, recordOf).flatMap(({ media, isNegative: negative, result }) => {
      const picture = mediaOf(media)
      return picture ? [{ id: picture.id, negative: negative === true, result: orNull(result, readResult) }] : []
    })
    const own = listOf(kept, recordOf).flatMap((example): Example[] => {
      const picture = mediaOf(example.media)
      return picture ? [{ ...readPlace(example), id: newId(), media: picture.id }] : []
    })
    const negatives = pictures.filter(({ negative }) => negative).map(({ id }) => id)
    const followed = listOf(videos, recordOf).flatMap(({ media, tracks }) => {
      const video = mediaOf(media)
      return video ? [[video.id, readTracked(tracks)] as const] : []
    })
    replaceTargets({ categories: listOf(names, textOf), examples: own, negatives })
    // Older sessions have neither.
    categoryDraft.value = orNull(draft, textOf) ?? ''
    options.value = readOptions(given ?? {})
    tracked.value = new Map(followed)
    replaceResults(new Map(pictures.flatMap(({ id, result }) => (result === null ? [] : [[id, result] as const]))))
  },

  title: () => (categories.value.length === 0 ? null : categories.value.join(', ')),
})

function readOptions(value: unknown): DetectOptions {
  const { output, confidence, thinks } = optionsOf(value, DEFAULT_OPTIONS)
  return {
    output: output === 'point' ? output : 'box',
    thinks,
    confidence: CONFIDENCES.find((one) => one.value === confidence)?.value ?? 'off',
  }
}

function readResult(value: unknown): Result {
  const { found, spots, asked, model, rating, isCut, isReviewed, milliseconds } = recordOf(value)
  return {
    found: listOf(found, readSpot),
    spots: listOf(spots, readSpot),
    asked: listOf(asked, textOf),
    model: orNull(model ?? null, textOf),
    rating: orNull(rating, readRating),
    isCut: isCut === true,
    isReviewed: isReviewed === true,
    milliseconds: orNull(milliseconds, numberOf),
  }
}

function readSpot(value: unknown): Spot {
  const spot = recordOf(value)
  const confidence = orNull(spot.confidence, numberOf)
  const rated = confidence === null ? {} : { confidence }
  return { ...readPlace(spot), id: textOf(spot.id), kind: spot.kind === 'point' ? 'point' : 'box', ...rated }
}

function readTracked(value: unknown): Tracked {
  const { sightings, times, isCut, milliseconds } = recordOf(value)
  return {
    sightings: listOf(sightings, (item) => {
      const { id, track, seconds, ...place } = recordOf(item)
      return { ...readPlace(place), id: textOf(id), track: numberOf(track), seconds: numberOf(seconds) }
    }),
    times: listOf(times, numberOf),
    isCut: isCut === true,
    milliseconds: numberOf(milliseconds),
  }
}

function readRating(value: unknown): Rating {
  const { isCalibrated, whole } = recordOf(value)
  const list = listOf(whole, recordOf)
  return {
    isCalibrated: isCalibrated === true,
    whole: list.map(({ label, chance }) => ({ label: orNull(label, textOf), chance: orNull(chance, numberOf) })),
  }
}

function readPlace({ label, left, top, right, bottom }: Readonly<Record<string, unknown>>) {
  return {
    label: textOf(label),
    left: numberOf(left),
    top: numberOf(top),
    right: numberOf(right),
    bottom: numberOf(bottom),
  }
}
