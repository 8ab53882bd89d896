import { z } from 'zod'
import { goesForward } from '../../../../media/page-selection.ts'
import { type BodyFormat, bodyFormat } from '../../../http/body/body-format.ts'
import { requests } from '../../../http/wire/components.ts'
import { mediaUrl } from '../../openai/wire/messages.ts'

/** The maximum number of pages of a request. */
const MOST_PAGES = 256
const SELECTION = /^ *\d{1,6}( *- *\d{1,6})?( *, *\d{1,6}( *- *\d{1,6})?)* *$/

const documentUrl = requests.object('OcrDocumentUrl', {
  type: z.literal('document_url'),
  document_url: mediaUrl.describe('Of a PDF: a URL or a base64 data URL.'),
  document_name: z.string().nullish(),
})
const pictureUrl = requests.object('OcrPictureUrl', { url: mediaUrl, detail: z.string().nullish() })
const imageUrl = requests.object('OcrImageUrl', {
  type: z.literal('image_url'),
  image_url: z.union([mediaUrl, pictureUrl]),
})
const file = requests.object('OcrFile', {
  type: z.literal('file'),
  file_id: z.string().min(1, 'expected a file id').describe('Of an uploaded PDF or image.'),
})

const PAGES = "expected pages from 0, such as '0-5,7'"
/** A field that is rejected unless it is null. */
const unsupported = (what: string) => z.null(`${what} not supported`).optional()

/** Body of `POST /v1/ocr`, in Mistral’s shape. Unknown keys are rejected. */
export const ocrRequest = requests.strictObject('OcrRequest', {
  model: z.string(),
  document: requests.union('OcrDocument', 'type', [documentUrl, imageUrl, file]),
  id: z.string().nullish().describe('Accepted and ignored.'),
  pages: z
    .union([
      z.string().max(2_000).regex(SELECTION, PAGES).refine(goesForward, PAGES),
      z.array(z.int().min(0).max(999_999)).min(1).max(MOST_PAGES),
    ])
    .nullish()
    .describe("Which pages, from 0: a list, or a text such as '0-5,7'. All by default."),
  include_image_base64: z
    .boolean()
    .nullish()
    .describe('Whether the reply shows the images of the pages. False by default.'),
  image_limit: z.int().min(0).nullish().describe('The most images of the document.'),
  image_min_size: z.int().min(0).nullish().describe('Images with a shorter side are left out, in pixels.'),
  include_blocks: z.boolean().nullish().describe('Whether pages list their blocks. True by default.'),
  extract_header: z.boolean().nullish().describe('Whether the header of a page goes to a field of its own.'),
  extract_footer: z.boolean().nullish().describe('Whether the footer of a page goes to a field of its own.'),
  table_format: unsupported('tables apart from the Markdown are'),
  bbox_annotation_format: unsupported('annotations of images are'),
  document_annotation_format: unsupported('annotations of documents are'),
  document_annotation_prompt: unsupported('annotations of documents are'),
  confidence_scores_granularity: unsupported('confidence scores are'),
})

export type OcrRequestBody = z.output<typeof ocrRequest>
export const ocrBody: BodyFormat<OcrRequestBody> = bodyFormat(import.meta.url, 'ocrRequest', ocrRequest)
