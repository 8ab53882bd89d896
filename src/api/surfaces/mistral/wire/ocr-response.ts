import { z } from 'zod'
import { BLOCK_TYPES } from '../../../../grounding/pages/page.ts'
import { responses } from '../../../http/wire/components.ts'

const pixels = z.int().min(0)
const corners = { top_left_x: pixels, top_left_y: pixels, bottom_right_x: pixels, bottom_right_y: pixels }

const image = responses.object('OcrImage', {
  id: z.string(),
  ...corners,
  image_base64: z.string().nullable().describe('A data URL of a PNG, with `include_image_base64`.'),
})

const block = responses.object('OcrBlock', {
  type: z.enum(BLOCK_TYPES),
  ...corners,
  content: z.string().describe('Markdown; tables may be HTML or LaTeX.'),
  image_id: z.string().optional().describe('Of an image: its entry in `images`.'),
})

const page = responses.object('OcrPage', {
  index: z.int().min(0),
  markdown: z.string(),
  images: z.array(image),
  dimensions: responses
    .object('OcrDimensions', { dpi: z.int(), height: z.int().min(1), width: z.int().min(1) })
    .describe('Size of the page as an image, in pixels, the unit of all places.'),
  header: z.string().nullable().optional().describe('With `extract_header`.'),
  footer: z.string().nullable().optional().describe('With `extract_footer`.'),
  blocks: z.array(block).optional().describe('The blocks whose places the model reports, in reading order.'),
  truncated: z.literal(true).optional().describe('Extension: the model had no room for the rest of the page.'),
})

const usage = responses.object('OcrUsage', {
  pages_processed: z.int().min(0),
  doc_size_bytes: z.int().min(0).nullable().describe('Null for a document that was not in the request.'),
})

/** Response of `POST /v1/ocr`. */
const ocr = responses.object('Ocr', {
  pages: z.array(page),
  model: z.string(),
  usage_info: usage,
  document_annotation: z.null(),
})

export type OcrPageBody = z.output<typeof page>
export type OcrBody = z.output<typeof ocr>
