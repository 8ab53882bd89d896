import { jsonDialect } from './json.ts'

/**
 * LFM2.5-VL: `[{"label": "cat", "bbox": [0.12, 0.05, 0.8, 0.61]}]`: left, top, right, bottom as fractions of the
 * image's sides. The question is that of its model card; https://github.com/Liquid4All/cookbook
 * (examples/satellite-vlm).
 */
export const lfm25Vl = jsonDialect({
  keys: { box: 'bbox' },
  labelFirst: true,
  yFirst: false,
  indent: null,
  decimals: 3,
  space: () => ({ width: 1, height: 1 }),
  instruction: () =>
    'Whenever you refer to something in an image, give it as JSON: {"label": "...", "bbox": [x1, y1, x2, y2]}. Coordinates are normalized to [0,1].',
  question: (_kind, labels) =>
    `Detect all instances of: ${labels === null ? 'every object' : labels.join(', ')}. ` +
    'Response must be a JSON array: [{"label": ..., "bbox": [x1, y1, x2, y2]}, ...]. Coordinates are normalized to [0,1].',
})
