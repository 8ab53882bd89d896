import type { Family } from './family.ts'
import { TIMED_PAIRS } from './video-layout.ts'

/**
 * This project's own models (`training/`). They are built like Qwen3-VL and their files say so, so a card must name the
 * family. How many tokens an image has differs between the models: it is what each was trained with.
 */
export const lookout: Family = {
  title: 'Lookout',
  projectors: [],
  architectures: [],
  image: { patchSize: 16, mergeSize: 2 },
  video: { layout: TIMED_PAIRS },
  dialect: 'markup',
  toolSyntax: 'hermes',
  thought: { begin: '<think>\n', end: '</think>', closing: '\n</think>\n\n', exemplars: true },
}
