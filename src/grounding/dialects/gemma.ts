import { jsonDialect } from './json.ts'

const EXAMPLE = {
  box: '{"box_2d": [ymin, xmin, ymax, xmax], "label": "name"}',
  point: '{"point": [y, x], "label": "name"}',
} as const
const NOUN = { box: 'bounding box', point: 'point' } as const

/** Gemma 3 and Gemini: a 0..1000 grid, y before x. */
export const gemma = jsonDialect({
  keys: { box: 'box_2d', point: 'point' },
  yFirst: true,
  indent: '  ',
  space: () => ({ width: 1000, height: 1000 }),
  instruction: (kind) =>
    `Whenever you refer to something in an image, give its ${NOUN[kind]} as JSON, normalized to 0-1000, like this: ${EXAMPLE[kind]}`,
  question: (kind, labels) =>
    `${labels === null ? 'Detect all objects in the image' : `Detect in the image: ${labels.join(', ')}`}. ` +
    `Output a JSON list where each entry is an object with its ${NOUN[kind]}, normalized to 0-1000, and its label: ` +
    `${EXAMPLE[kind]}. If there is none, output [].`,
})
