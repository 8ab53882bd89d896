import './ocr-request.ts'
import './ocr-response.ts'
import { json, MODEL_ERRORS, ok, operation, type Paths, PRIORITY } from '../../../http/wire/describe.ts'

export const MISTRAL_PATHS: Paths = {
  '/v1/ocr': {
    post: operation({
      id: 'readDocument',
      tag: 'ocr',
      summary: 'Read the pages of a document as Markdown, with places',
      parameters: [PRIORITY],
      body: json('OcrRequest'),
      replies: ok('The pages, in the order of the request.', json('Ocr')),
      errors: MODEL_ERRORS,
    }),
  },
}
