import { type DetectedPicture, labelsOf } from './detected-picture.ts'

/**
 * The files of a folder in YOLO's format: for each picture a text file with one line for each box, `class cx cy w h` as
 * parts of the picture's sides, and `classes.txt` with the names of the classes, from 0.
 * @param asked labels that become classes even where nothing was found.
 * @returns names of files, with their text.
 */
export function toYolo(pictures: readonly DetectedPicture[], asked: readonly string[]): Map<string, string> {
  const labels = labelsOf(pictures, asked)
  const files = new Map([['classes.txt', labels.map((label) => `${label.replace(/\s+/g, ' ')}\n`).join('')]])
  for (const { name, width, height, boxes } of pictures) {
    const lines = boxes.map(({ label, left, top, right, bottom }) => {
      const numbers = [
        (left + right) / 2 / width,
        (top + bottom) / 2 / height,
        (right - left) / width,
        (bottom - top) / height,
      ]
      return `${labels.indexOf(label)} ${numbers.map((number) => number.toFixed(6)).join(' ')}\n`
    })
    files.set(yoloName(name), lines.join(''))
  }
  return files
}

/** The label file of a picture: its name, with another ending. */
export function yoloName(picture: string): string {
  return `${picture.replace(/^.*\//, '').replace(/\.[^.]+$/, '')}.txt`
}
