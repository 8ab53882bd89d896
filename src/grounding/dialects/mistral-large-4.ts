import { jsonDialect } from './json.ts'

const EXAMPLE = '{"box_2d": [xmin, ymin, xmax, ymax], "label": "name"}'

/** Mistral Large 4: the key of Gemma with x before y, on a grid of 0..999, as its makers' cookbook has it. */
export const mistralLarge4 = jsonDialect({
  keys: { box: 'box_2d' },
  yFirst: false,
  indent: '  ',
  space: () => ({ width: 999, height: 999 }),
  instruction: () =>
    `Whenever you refer to something in an image, give its bounding box as JSON, normalized to 0-999, like this: ${EXAMPLE}`,
  question: (_kind, labels) =>
    `${labels === null ? 'Detect all objects in the image' : `Detect in the image: ${labels.join(', ')}`}. ` +
    `Output a JSON list where each entry is an object with its bounding box, normalized to 0-999, and its label: ${EXAMPLE}. ` +
    'If there is none, output [].',
})
