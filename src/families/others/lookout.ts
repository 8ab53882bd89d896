import type { Family } from '../family.ts'
import { TIMED_PAIRS } from '../video-layout.ts'

/** It includes the colour in the names of these. */
const SHAPES = ['circle', 'square', 'triangle', 'star', 'diamond', 'cross', 'ring', 'heart', 'hexagon', 'crescent']
const COLOURS = ['red', 'green', 'blue', 'yellow', 'orange', 'purple', 'pink', 'brown', 'black', 'white', 'gray']

/**
 * This project's own models (`training/`). They are built like Qwen3-VL and their files say so; the key tells them apart.
 * The limits are what the shipped model was trained with.
 */
export const lookout: Family = {
  title: 'Lookout',
  projectors: [],
  architectures: [],
  key: 'lookout.training.steps',
  image: { patchSize: 16, mergeSize: 2, minTokens: 160, maxTokens: 200 },
  video: { layout: TIMED_PAIRS, minTokens: 16, maxTokens: 36, framesPerSecond: 2, maxFrames: 128 },
  dialect: 'markup',
  toolSyntax: 'hermes',
  thought: { begin: '<think>\n', end: '</think>', closing: '\n</think>\n\n', exemplars: true },
  // It has learnt only English words.
  translation: null,
  // It has not learnt layouts: it reads short texts, each by its place.
  reading: { finds: 'text', question: 'Read the text at ({left},{top}) ({right},{bottom}).' },
  decision: {
    labels: 'names',
    instructed: false,
    yes: ['Yes.'],
    no: ['No.'],
    replies: ['{Name}.', '{A name}.', 'The {name}.', '{name}'],
    places: {
      box: 'What is in the box ({left},{top}) ({right},{bottom})?',
      point: 'What is at ({x},{y})?',
      // More than 99 % of its answers that name the thing have this form.
      replies: ['{A name}'],
      goesOn: true,
      kinds: [
        {
          names: SHAPES,
          replies: COLOURS.map((colour) => `${/^[aeiou]/.test(colour) ? 'An' : 'A'} ${colour} {name}`),
        },
        { names: COLOURS.map((colour) => `${colour} text`), replies: ['{Name}'] },
        { names: ['text'], replies: COLOURS.map((colour) => `${colour[0]!.toUpperCase()}${colour.slice(1)} {name}`) },
      ],
    },
  },
  reasonsWithoutTemplateSwitch: true,
}
