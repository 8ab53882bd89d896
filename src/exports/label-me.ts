import type { DetectedPicture } from './detected-picture.ts'

/** The version of LabelMe's format that the files are written in. */
const VERSION = '5.5.0'

/**
 * A picture's annotations as LabelMe (github.com/wkentaro/labelme) keeps them: one JSON file beside each picture, with
 * corners in pixels of the upright picture.
 */
export function toLabelMe({ name, width, height, boxes, points = [] }: DetectedPicture): object {
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
    imagePath: name.replace(/^.*\//, ''),
    imageData: null,
    imageHeight: height,
    imageWidth: width,
  }
}

/** The file that LabelMe looks for beside a picture. */
export function labelMeName(picture: string): string {
  return `${picture.replace(/^.*\//, '').replace(/\.[^.]+$/, '')}.json`
}
