import type { DetectionKind, Scene } from '../dialect.ts'
import { type JsonForm, jsonDialect } from './json.ts'

const EXAMPLE = {
  box: '{"bbox_2d": [x1, y1, x2, y2], "label": "name"}',
  point: '{"point_2d": [x, y], "label": "name"}',
} as const
const NOUN = { box: 'bbox', point: 'point' } as const

/** The prompts follow the cookbooks of the Qwen-VL family. */
const form: Omit<JsonForm, 'space'> = {
  keys: { box: 'bbox_2d', point: 'point_2d' },
  yFirst: false,
  indent: '\t',
  instruction: (kind) =>
    `Whenever you refer to something in an image, report its ${NOUN[kind]} coordinates in JSON format like this: ${EXAMPLE[kind]}`,
  question(kind: DetectionKind, labels: readonly string[] | null) {
    const what =
      labels === null
        ? 'Locate every object in the image.'
        : `Locate every instance that belongs to the following categories: ${JSON.stringify(labels.join(', '))}.`
    return `${what} Report ${NOUN[kind]} coordinates in JSON format like this: ${EXAMPLE[kind]}. If there is none, report [].`
  },
}

/** Qwen3-VL: a 0..1000 grid. */
export const qwen3Vl = jsonDialect({ ...form, space: () => ({ width: 1000, height: 1000 }) })

/** Qwen2.5-VL: pixels of the image as resized for the model. With several images, the last one counts. */
export const qwen25Vl = jsonDialect({
  ...form,
  space: ({ image }: Scene) => image ?? { width: 1000, height: 1000 },
})
