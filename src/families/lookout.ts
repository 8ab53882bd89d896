import type { Family } from './family.ts'
import { TIMED_PAIRS } from './video-layout.ts'

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
  decision: {
    labels: 'names',
    instructed: false,
    yes: ['Yes.'],
    no: ['No.'],
    replies: ['{Name}.', '{A name}.', 'The {name}.', '{name}'],
    places: { box: 'What is in the box ({left},{top}) ({right},{bottom})?', point: 'What is at ({x},{y})?' },
  },
  reasonsWithoutTemplateSwitch: true,
}
