import './ocr-request.ts'
import './ocr-response.ts'
import { json, MODEL_ERRORS, ok, operations, PRIORITY } from '../../../http/wire/describe.ts'

export const MISTRAL_PATHS = operations({
  'POST /v1/ocr': {
    id: 'readDocument',
    tag: 'ocr',
    summary: 'Read the pages of a document as Markdown, with places',
    parameters: [PRIORITY],
    body: json('OcrRequest'),
    replies: ok('The pages, in the order of the request.', json('Ocr')),
    errors: MODEL_ERRORS,
  },
})
