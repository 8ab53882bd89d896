import type { FastifyInstance } from 'fastify'
import type { DetectReply, Tiling } from '../../conversation/detect.ts'
import type { DetectMeasure } from '../../conversation/detect-measure.ts'
import type {
  DetectRequest,
  Exemplar,
  Targets,
  TrackMedia,
  TrackRequest,
} from '../../conversation/request/detect-request.ts'
import type { TrackReply } from '../../conversation/track.ts'
import type { ModelCatalog } from '../../inference/catalog/model-catalog.ts'
import type { ServedModel } from '../../inference/catalog/registry.ts'
import { invalidRequest } from '../../lib/errors/errors.ts'
import { plainName } from '../../lib/plain-name.ts'
import type { ApiCall } from '../http/api-call.ts'
import type { ReadBody } from '../http/body/body-reader.ts'
import { addCalls } from '../http/client-call.ts'
import { namedModel } from '../http/named-model.ts'
import { admit, admitUnmetered, type Reading, type Serving } from '../surfaces/admission.ts'
import {
  type DetectInputTokensBody,
  type DetectRequestBody,
  type DetectResponseBody,
  detectBody,
} from './wire/detect.ts'

const PATIENCE_SECONDS = 2

const READING: Reading<ReadBody<DetectRequestBody>> = {
  read: (call, bodies) => bodies.read(call, detectBody),
  find: modelFor,
  endpoint: 'detect',
}

const URL = '/v1/detect'

/** `POST /v1/detect`, and below it `/input_tokens`, which the contract does not have. */
export function addDetect(app: FastifyInstance, serving: Serving): void {
  addCalls(app, {
    bucket: 'detect',
    answers: {
      [URL]: (call) => detect(call, serving),
      [`${URL}/input_tokens`]: async (call) => {
        const { read, caller, signal } = await admitUnmetered(call, serving, READING)
        const { conversations } = serving
        return toInputTokens(
          read.value.config?.tracks
            ? await conversations.measureTracks(toTrackRequest(read.value), caller, signal)
            : await conversations.measureDetect(toDetectRequest(read.value), caller, signal),
        )
      },
    },
  })
}

export async function detect(call: ApiCall, serving: Serving): Promise<DetectResponseBody> {
  const { read, metered, caller, signal } = await admit(call, serving, READING)
  if (read.value.config?.tracks) {
    const tracked = await serving.conversations.track(toTrackRequest(read.value), caller, signal)
    metered.finish(tracked.finishReason)
    return toTracked(tracked, namesIn(read.value))
  }
  const found = await serving.conversations.detect(toDetectRequest(read.value), caller, signal)
  metered.finish(found.finishReason)
  return toBody(found, { names: namesIn(read.value), explained: read.value.config?.evidence ?? false })
}

/**
 * The names in a request as the client wrote them, by their normalised form. Names that differ only in blanks count as
 * one; the first spelling is kept.
 */
type WrittenNames = ReadonlyMap<string, string>

function namesIn({ categories, exemplars }: DetectRequestBody): WrittenNames {
  const shown = (exemplars ?? []).flatMap(({ annotations }) =>
    annotations.flatMap((one) => one.mention ?? one.label ?? []),
  )
  const names = categories?.length ? categories : shown
  return new Map(names.toReversed().map((name) => [plainName(name), name.toWellFormed()]))
}

interface Shown {
  readonly names: WrittenNames
  readonly explained: boolean
}

function toBody(found: DetectReply, { names, explained }: Shown): DetectResponseBody {
  const { categories, isCalibrated: calibrated = false, finishReason, tiling } = found
  return {
    detections: found.detections.map((detection) => toDetection(detection, { names, explained })),
    ...(categories === undefined
      ? {}
      : {
          categories: categories.map(({ label, complete, more }) => {
            return {
              mention: label && (names.get(label) ?? label),
              complete,
              ...(explained ? { evidence: { more } } : {}),
            }
          }),
          confidence: { calibrated },
        }),
    finish_reason: finishReason,
    ...(tiling && toTiling(tiling)),
  }
}

/** Returns the model to use. `model` is optional: the contract's detect request has no such field. */
async function modelFor(
  { value: { model: id } }: ReadBody<DetectRequestBody>,
  models: ModelCatalog,
): Promise<ServedModel> {
  const model = typeof id === 'string' ? await namedModel(models, id) : (await models.list()).find(detectsObjects)
  if (model && detectsObjects(model)) return model
  throw invalidRequest(
    model ? `Model '${model.id}' does not detect objects in images` : 'This server has no model that detects objects',
    model ? 'model' : null,
  )
}

function detectsObjects({ served }: ServedModel): boolean {
  const grounds = served.outputFormats.includes('box') || served.outputFormats.includes('point')
  return grounds && served.modalities.includes('image')
}

function toDetectRequest(body: DetectRequestBody): DetectRequest {
  const { tiles, smallest, looks } = body.config ?? {}
  return {
    ...toTargets(body),
    picture: (body.media as ImageBody).image_url,
    tiles: tiles == null ? null : { grid: toGrid(tiles), smallest: smallest ?? null, looks: looks ?? 'all' },
  }
}

function toGrid(tiles: 'auto' | readonly number[]): NonNullable<DetectRequest['tiles']>['grid'] {
  return tiles === 'auto' ? tiles : [tiles[0]!, tiles[1]!]
}

/** The only media without tracks. */
type ImageBody = Extract<DetectRequestBody['media'], { type: 'image' }>

function toTrackRequest({ media, config, ...body }: DetectRequestBody): TrackRequest {
  return {
    ...toTargets({ media, config, ...body }),
    media: toTrackMedia(media as Exclude<DetectRequestBody['media'], ImageBody>),
    patience: config?.patience ?? PATIENCE_SECONDS,
    state: config?.state ?? null,
  }
}

function toTrackMedia(media: Exclude<DetectRequestBody['media'], ImageBody>): TrackMedia {
  if (media.type === 'video') return { type: 'video', video: media.video_url }
  const frames = media.frames.map(({ image_url: picture, timestamp: seconds }) => ({ picture, seconds }))
  return { type: 'frames', frames }
}

function toTargets(body: DetectRequestBody): Targets {
  return {
    categories: (body.categories ?? []).map(plainName),
    exemplars: (body.exemplars ?? []).map(toExemplar),
    negatives: (body.negative_exemplars ?? []).map(({ media }) => media.image_url),
    output: body.config?.output ?? 'box',
    thinking: body.config?.enable_thinking ?? false,
    confidence: toConfidence(body.config),
  }
}

/** The minimum confidence when every list is searched for one more object: most of those are wrong. */
const LEAST_THOROUGH = 0.05

function toConfidence(config: DetectRequestBody['config']): DetectRequest['confidence'] {
  if (!config?.confidence) return null
  const isThorough = config.confidence === 'thorough'
  return { isThorough, least: config.min_confidence ?? (isThorough ? LEAST_THOROUGH : 0) }
}

function toExemplar({ media, annotations }: NonNullable<DetectRequestBody['exemplars']>[number]): Exemplar {
  return {
    picture: media.image_url,
    annotations: annotations.map(({ mention, label, point, point_box: box }) => {
      const name = mention ?? label ?? null
      return {
        mention: name && plainName(name),
        point: point ?? null,
        box: box ? { topLeft: box.top_left, bottomRight: box.bottom_right } : null,
      }
    }),
  }
}

function toTracked(
  { detections, times, size, framesLeft, state, finishReason }: TrackReply,
  names: WrittenNames,
): DetectResponseBody {
  return {
    detections: detections.map(({ track, seconds: timestamp, ...found }) => ({
      ...toDetection(found, { names, explained: false }),
      track,
      timestamp,
    })),
    finish_reason: finishReason,
    timestamps: [...times],
    ...size,
    ...(framesLeft === 0 ? {} : { frames_left: framesLeft }),
    state,
  }
}

type DetectionBody = DetectResponseBody['detections'][number]

function toDetection(detection: DetectReply['detections'][number], { names, explained }: Shown): DetectionBody {
  const { mention, confidence, evidence } = detection
  return {
    mention: names.get(mention) ?? mention,
    ...('point' in detection
      ? { point: detection.point }
      : { point_box: { top_left: detection.box.topLeft, bottom_right: detection.box.bottomRight } }),
    ...(confidence === undefined ? {} : { confidence }),
    ...(evidence === undefined || !explained ? {} : { evidence: toEvidence(evidence) }),
  }
}

function toEvidence({
  listLength,
  read,
  ...evidence
}: NonNullable<DetectReply['detections'][number]['evidence']>): NonNullable<DetectionBody['evidence']> {
  return { ...evidence, list_length: listLength, ...(read === null ? {} : { read }) }
}

function toTiling({ grids, looks, tilesLeft }: Tiling): Pick<DetectResponseBody, 'tiles' | 'looks' | 'tiles_left'> {
  return { tiles: grids.map((grid) => [...grid]), looks, ...(tilesLeft === null ? {} : { tiles_left: tilesLeft }) }
}

function toInputTokens(measure: DetectMeasure): DetectInputTokensBody {
  return {
    object: 'detect.input_tokens',
    input_tokens: measure.promptTokens,
    input_tokens_details: { cached_tokens: measure.cachedTokens, image_tokens: measure.imageTokens },
    ...(measure.frames === null ? {} : { frames: measure.frames }),
    ...(measure.grids === null ? {} : { tiles: measure.grids.map((grid) => [...grid]) }),
    looks: measure.mostLooks,
    look_tokens: measure.lookTokens,
    estimated: !measure.exact,
  }
}
