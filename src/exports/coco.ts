import { type DetectedPicture, describeOrigin, labelsOf, type Origin, programOf } from './detected-picture.ts'

/**
 * One file of object detection in COCO's format (cocodataset.org/#format-data). Boxes are [x, y, width, height] in
 * pixels of the upright picture. All ids begin at 1: tools treat 0 as "none".
 */
export function toCoco(pictures: readonly DetectedPicture[], origin: Origin): object {
  const labels = labelsOf(pictures, origin.asked)
  const annotations = pictures.flatMap(({ boxes }, index) =>
    boxes.map(({ label, left, top, right, bottom, confidence: score }) => ({
      image_id: index + 1,
      category_id: labels.indexOf(label) + 1,
      bbox: [left, top, right - left, bottom - top],
      area: (right - left) * (bottom - top),
      // Some readers require the field, even for boxes alone.
      segmentation: [],
      iscrowd: 0,
      // COCO defines it for results, and this file contains results.
      ...(score === undefined ? {} : { score }),
    })),
  )
  return {
    info: {
      description: describeOrigin(origin),
      contributor: programOf(origin),
      year: origin.date.getFullYear(),
      date_created: origin.date.toISOString(),
      // Not defined by COCO.
      model: origin.model,
      prompt: origin.asked,
    },
    licenses: [],
    images: pictures.map(({ name, width, height }, index) => ({ id: index + 1, file_name: name, width, height })),
    annotations: annotations.map((annotation, index) => ({ id: index + 1, ...annotation })),
    categories: labels.map((name, index) => ({ id: index + 1, name })),
  }
}
