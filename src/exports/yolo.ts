import { type DetectedPicture, describeOrigin, labelsOf, type Origin, programOf } from './detected-picture.ts'

/** Files of a YOLO data set that belong to no picture. */
export const YOLO_FILES = ['data.yaml', 'train.txt', 'classes.txt'] as const

/**
 * The files of a data set in YOLO's format, as Ultralytics reads it: a text file per picture with one line per box,
 * `class cx cy w h` as fractions of the picture's sides; `data.yaml` with the classes; and `train.txt` with the
 * pictures. LabelImg and Label Studio read the classes from `classes.txt`.
 * @param pictures named by their paths within the data set.
 * @returns texts by file name.
 */
export function toYolo(pictures: readonly DetectedPicture[], origin: Origin): Map<string, string> {
  const labels = labelsOf(pictures, origin.asked)
  const classes = labels.map(toLine)
  const head = `${describeOrigin(origin)} (${programOf(origin)}, ${origin.date.toISOString().slice(0, 10)})`
  // No other keys: CVAT interprets them as lists of pictures.
  const data = [
    `# ${toLine(head)}`,
    '# The paths are relative to this file. Both lists are the same: split them before you train.',
    'train: train.txt',
    'val: train.txt',
    classes.length === 0 ? 'names: {}' : 'names:',
    // YAML accepts JSON strings.
    ...classes.map((name, index) => `  ${index}: ${JSON.stringify(name)}`),
  ]
  const files = new Map([
    ['data.yaml', toText(data)],
    // Ultralytics replaces the leading dot by the folder of the list.
    ['train.txt', toText(pictures.map(({ name }) => `./${name}`))],
    ['classes.txt', toText(classes)],
  ])
  for (const { name, width, height, boxes } of pictures) {
    const lines = boxes.map(({ label, left, top, right, bottom }) => {
      const numbers = [
        (left + right) / 2 / width,
        (top + bottom) / 2 / height,
        (right - left) / width,
        (bottom - top) / height,
      ]
      return `${labels.indexOf(label)} ${numbers.map((number) => number.toFixed(6)).join(' ')}`
    })
    files.set(yoloName(name), toText(lines))
  }
  return files
}

/**
 * The file where Ultralytics looks for the labels of a picture: the last folder named `images` in its path becomes
 * `labels`. Without one, the labels are next to the picture.
 */
export function yoloName(picture: string): string {
  return `${picture.replace(/^(.*\/)?images\//s, '$1labels/').replace(/\.[^./]+$/, '')}.txt`
}

function toText(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join('')
}

/** Without line breaks and characters that YAML rejects. */
function toLine(text: string): string {
  return text.replace(/[\s\p{C}]+/gu, ' ')
}
