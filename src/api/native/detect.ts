import type { FastifyInstance } from 'fastify'
import type { DetectReply, Tiling } from '../../conversation/detect.ts'
import type { DetectMeasure } from '../../conversation/detect-measure.ts'
import type { DetectRequest, Exemplar } from '../../conversation/request/detect-request.ts'
import type { ModelCatalog } from '../../inference/catalog/model-catalog.ts'
import type { ServedModel } from '../../inference/catalog/registry.ts'
import { invalidRequest } from '../../lib/errors.ts'
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
        return toInputTokens(await serving.conversations.measureDetect(toDetectRequest(read.value), caller, signal))
      },
    },
  })
}

export async function detect(call: ApiCall, serving: Serving): Promise<DetectResponseBody> {
  const { read, metered, caller, signal } = await admit(call, serving, READING)
  const found = await serving.conversations.detect(toDetectRequest(read.value), caller, signal)
  metered.finish(found.finishReason)
  const { detections, finishReason, tiling } = found
  return { detections: detections.map(toDetection), finish_reason: finishReason, ...(tiling && toTiling(tiling)) }
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
    picture: body.media.image_url,
    categories: body.categories ?? [],
    exemplars: (body.exemplars ?? []).map(toExemplar),
    negatives: (body.negative_exemplars ?? []).map(({ media }) => media.image_url),
    output: body.config?.output ?? 'box',
    thinking: body.config?.enable_thinking ?? false,
    tiles: tiles == null ? null : { grid: toGrid(tiles), smallest: smallest ?? null, looks: looks ?? 'all' },
  }
}

function toGrid(tiles: 'auto' | readonly number[]): NonNullable<DetectRequest['tiles']>['grid'] {
  return tiles === 'auto' ? tiles : [tiles[0]!, tiles[1]!]
}

function toExemplar({ media, annotations }: NonNullable<DetectRequestBody['exemplars']>[number]): Exemplar {
  return {
    picture: media.image_url,
    annotations: annotations.map(({ mention, label, point, point_box: box }) => ({
      mention: mention ?? label ?? null,
      point: point ?? null,
      box: box ? { topLeft: box.top_left, bottomRight: box.bottom_right } : null,
    })),
  }
}

function toDetection(detection: DetectReply['detections'][number]): DetectResponseBody['detections'][number] {
  const { mention } = detection
  if ('point' in detection) return { mention, point: detection.point }
  const { topLeft, bottomRight } = detection.box
  return { mention, point_box: { top_left: topLeft, bottom_right: bottomRight } }
}

function toTiling({ grids, looks, tilesLeft }: Tiling): Pick<DetectResponseBody, 'tiles' | 'looks' | 'tiles_left'> {
  return { tiles: grids.map((grid) => [...grid]), looks, ...(tilesLeft === null ? {} : { tiles_left: tilesLeft }) }
}

function toInputTokens(measure: DetectMeasure): DetectInputTokensBody {
  return {
    object: 'detect.input_tokens',
    input_tokens: measure.promptTokens,
    input_tokens_details: { cached_tokens: measure.cachedTokens, image_tokens: measure.imageTokens },
    ...(measure.grids === null ? {} : { tiles: measure.grids.map((grid) => [...grid]) }),
    looks: measure.mostLooks,
    look_tokens: measure.lookTokens,
    estimated: !measure.exact,
  }
}
