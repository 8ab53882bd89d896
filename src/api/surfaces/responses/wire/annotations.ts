import { z } from 'zod'
import { responses } from '../../../http/wire/components.ts'

/** 0 to 1, from the left or top edge of the picture to the right or bottom one. */
const share = z.number().min(0).max(1)
const seconds = z.number().min(0)

const edges = responses.object('AnnotationBox', { top: share, bottom: share, left: share, right: share })
const place = responses.object('AnnotationPoint', { x: share, y: share })

const common = {
  start_index: z.int().min(0).describe('Start of its markup in the text, in characters (Unicode code points).'),
  end_index: z.int().min(0).describe('End of its markup.'),
  mention: z.string().nullable(),
  asset_index: z.int().min(0).nullable().describe('Index of the medium; null if the request has only one.'),
}
const timed = { ...common, seconds: seconds.nullable().describe('Time in the video.') }

const box = responses.object('BoxAnnotation', { type: z.literal('x_box'), ...timed, box: edges })
const point = responses.object('PointAnnotation', { type: z.literal('x_point'), ...timed, point: place })
const polygon = responses.object('PolygonAnnotation', {
  type: z.literal('x_polygon'),
  ...timed,
  points: z.array(place),
})
const clip = responses.object('ClipAnnotation', {
  type: z.literal('x_clip'),
  ...common,
  start_seconds: seconds,
  end_seconds: seconds,
})

/** A place or a time that the text names, in addition to the markup in it. */
export const annotation = responses.union('ResponseAnnotation', 'type', [box, point, polygon, clip])

export type AnnotationBody = z.output<typeof annotation>
