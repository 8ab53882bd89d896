import { GRID_NUMBER } from '../dialect.ts'
import { refBoxDialect } from './ref-box.ts'

const NUMBER = '\\d{1,4}(?:\\.\\d{1,4})?'

/**
 * MiniCPM-V: `<ref>car</ref><box>229 246 904 872</box>`: left, top, right, bottom on a grid of 0..1000. When asked for
 * one thing, it omits the name. https://github.com/OpenBMB/MiniCPM-V/issues/982,
 * https://github.com/OpenSQZ/MiniCPM-V-CookBook/issues/39
 */
export const miniCpmV = refBoxDialect({
  boxes: `${GRID_NUMBER}(?: ${GRID_NUMBER}){3}`,
  writtenBoxes: `[ \\t]*${NUMBER}(?:(?:[ \\t]*,[ \\t]*|[ \\t]+)${NUMBER}){3}[ \\t]*`,
  write: (box) => box.join(' '),
  nameless: true,
  // The question for one region is its makers' own.
  question: (labels) =>
    labels === null
      ? 'Please name all objects in the image and provide the bounding box coordinate of each.'
      : `Please provide the bounding box coordinate of the region this sentence describes: ${labels.map((label) => `<ref>${label}</ref>`).join(' ')}`,
})
