import type { DetectedPicture } from './detected-picture.ts'

/** The version of LabelMe's format. */
const VERSION = '5.5.0'

/**
 * A picture's annotations as LabelMe (github.com/wkentaro/labelme) keeps them: one JSON file for each picture, with
 * corners in pixels of the upright picture.
 * @param imagePath from the folder of the JSON file to the picture.
 */
export function toLabelMe({ width, height, boxes, points = [] }: DetectedPicture, imagePath: string): object {
  const shape = (label: string, shape_type: 'rectangle' | 'point', points: readonly (readonly [number, number])[]) => ({
    label,
    points,
    group_id: null,
    description: '',
    shape_type,
    flags: {},
  })
  return {
    version: VERSION,
    flags: {},
    shapes: [
      ...boxes.map(({ label, left, top, right, bottom }) =>
        shape(label, 'rectangle', [
          [left, top],
          [right, bottom],
        ]),
      ),
      ...points.map(({ label, x, y }) => shape(label, 'point', [[x, y]])),
    ],
    imagePath,
    imageData: null,
    imageHeight: height,
    imageWidth: width,
  }
}

/** The name of the file that LabelMe looks for next to a picture. */
export function labelMeName(picture: string): string {
  return `${picture.replace(/\.[^./]+$/, '')}.json`
}
