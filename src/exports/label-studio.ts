import type { DetectedPicture } from './detected-picture.ts'

/**
 * Tasks with predictions for Label Studio (labelstud.io/guide/predictions). Places are percent of the picture's sides.
 * `from_name` and `to_name` are those of its templates for boxes and points.
 * @param modelVersion what Label Studio shows as the predictions' source.
 */
export function toLabelStudio(pictures: readonly DetectedPicture[], modelVersion: string): object[] {
  return pictures.map(({ name, width, height, boxes, points = [] }) => {
    const results = [
      ...boxes.map(({ label, left, top, right, bottom }) => ({
        type: 'rectanglelabels',
        value: {
          x: (left / width) * 100,
          y: (top / height) * 100,
          width: ((right - left) / width) * 100,
          height: ((bottom - top) / height) * 100,
          rotation: 0,
          rectanglelabels: [label],
        },
      })),
      ...points.map(({ label, x, y }) => ({
        type: 'keypointlabels',
        value: { x: (x / width) * 100, y: (y / height) * 100, width: 0.5, keypointlabels: [label] },
      })),
    ]
    return {
      data: { image: name },
      predictions: [
        {
          model_version: modelVersion,
          result: results.map((result, index) => ({
            id: String(index + 1),
            from_name: result.type === 'keypointlabels' ? 'kp-1' : 'label',
            to_name: result.type === 'keypointlabels' ? 'img-1' : 'image',
            original_width: width,
            original_height: height,
            image_rotation: 0,
            ...result,
          })),
        },
      ],
    }
  })
}
