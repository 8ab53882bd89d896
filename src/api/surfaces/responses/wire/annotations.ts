import { z } from 'zod'
import { responseSchemas } from '../../../http/wire/components.ts'

/** 0 to 1, from the left or top edge of the picture to the right or bottom one. */
const share = z.number().min(0).max(1)
const seconds = z.number().min(0)

const edges = z
  .object({ top: share, bottom: share, left: share, right: share })
  .register(responseSchemas, { id: 'AnnotationBox' })
const place = z.object({ x: share, y: share }).register(responseSchemas, { id: 'AnnotationPoint' })

const common = {
  start_index: z.int().min(0).describe('Start of its markup in the text, in characters (Unicode code points).'),
  end_index: z.int().min(0).describe('End of its markup.'),
  mention: z.string().nullable(),
  asset_index: z.int().min(0).nullable().describe('Index of the medium; null if the request has only one.'),
}
const timed = { ...common, seconds: seconds.nullable().describe('Time in the video.') }

const box = z.object({ type: z.literal('x_box'), ...timed, box: edges }).register(responseSchemas, {
  id: 'BoxAnnotation',
})
const point = z
  .object({ type: z.literal('x_point'), ...timed, point: place })
  .register(responseSchemas, { id: 'PointAnnotation' })
const polygon = z
  .object({ type: z.literal('x_polygon'), ...timed, points: z.array(place) })
  .register(responseSchemas, { id: 'PolygonAnnotation' })
const clip = z
  .object({ type: z.literal('x_clip'), ...common, start_seconds: seconds, end_seconds: seconds })
  .register(responseSchemas, { id: 'ClipAnnotation' })

/** A place or a time that the text names, in addition to the markup in it. */
export const annotation = z
  .discriminatedUnion('type', [box, point, polygon, clip])
  .register(responseSchemas, { id: 'ResponseAnnotation' })

export type AnnotationBody = z.output<typeof annotation>
