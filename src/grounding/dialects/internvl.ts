import { GRID_NUMBER } from '../dialect.ts'
import { listedBoxes, refBoxDialect } from './ref-box.ts'

/**
 * InternVL: `<ref>car</ref><box>[[229, 246, 904, 872], [...]]</box>`: left, top, right, bottom on a grid of 0..1000.
 * https://internvl.readthedocs.io/en/latest/get_started/chat_data_format.html (Grounding / Detection Data)
 */
export const internVl = refBoxDialect({
  ...listedBoxes(GRID_NUMBER),
  nameless: false,
  // The sentences of its training data.
  question: (labels) =>
    labels === null
      ? 'Please detect and label all objects in the following image and mark their positions.'
      : `Please provide the bounding box coordinates of the region this sentence describes: ${labels.map((label) => `<ref>${label}</ref>`).join(' ')}`,
})
