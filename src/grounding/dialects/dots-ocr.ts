import type { Scene } from '../dialect.ts'
import { jsonDialect } from './json.ts'

/**
 * dots.ocr: `[{"bbox": [10, 20, 300, 400], "category": "Text", "text": "..."}]`: left, top, right, bottom in pixels of the
 * image as it was resized for the model. It knows the parts of pages: Caption, Footnote, Formula, List-item, Page-footer,
 * Page-header, Picture, Section-header, Table, Text and Title. The question is its makers' (dict_promptmode_to_prompt,
 * `prompt_layout_only_en`), in short. https://github.com/rednote-hilab/dots.ocr
 */
export const dotsOcr = jsonDialect({
  keys: { box: 'bbox' },
  labelKey: 'category',
  textKey: 'text',
  yFirst: false,
  indent: null,
  space: ({ image }: Scene) => image ?? { width: 1000, height: 1000 },
  instruction: () => null,
  question: (_kind, labels) =>
    "Please output the layout information from this PDF image, including each layout's bbox and its category. The bbox should be in the format [x1, y1, x2, y2]. " +
    `${labels === null ? '' : `The layout categories are ${JSON.stringify(labels)}. `}` +
    'Do not output the corresponding text. The layout result should be in JSON format.',
})
