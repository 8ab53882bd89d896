import { type Family, PLAIN } from '../family.ts'

/** The makers' `prompt_layout_all_en`, word for word: the model was trained on it. */
const PROMPT = `Please output the layout information from the PDF image, including each layout element's bbox, its category, and the corresponding text content within the bbox.

1. Bbox format: [x1, y1, x2, y2]

2. Layout Categories: The possible categories are ['Caption', 'Footnote', 'Formula', 'List-item', 'Page-footer', 'Page-header', 'Picture', 'Section-header', 'Table', 'Text', 'Title'].

3. Text Extraction & Formatting Rules:
    - Picture: For the 'Picture' category, the text field should be omitted.
    - Formula: Format its text as LaTeX.
    - Table: Format its text as HTML.
    - All Others (Text, Title, etc.): Format their text as Markdown.

4. Constraints:
    - The output text must be the original text from the image, with no translation.
    - All layout elements must be sorted according to human reading order.

5. Final Output: The entire output must be a single JSON object.
`

/** It reads pages. */
export const dotsOcr: Family = {
  ...PLAIN,
  title: 'dots.ocr',
  projectors: ['dots_ocr'],
  // The number of tokens comes from its files.
  image: { patchSize: 14, mergeSize: 2 },
  dialect: 'dots-ocr',
  reading: { prompt: PROMPT, notation: 'dots-ocr' },
}

/** Its coordinate space is unknown. */
export const dots3Note: Family = {
  ...PLAIN,
  title: 'dots3-note',
  projectors: ['dots3note_v'],
  image: { patchSize: 14, mergeSize: 2 },
}
