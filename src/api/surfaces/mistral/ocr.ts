import type { Readable } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import type { OcrBlock, OcrPage } from '../../../conversation/ocr.ts'
import type { OcrRequest } from '../../../conversation/request/ocr-request.ts'
import type { ApiCall } from '../../http/api-call.ts'
import { addCalls } from '../../http/client-call.ts'
import { admit, bodiesOf, type Serving } from '../admission.ts'
import { longList } from '../long-list.ts'
import { type OcrRequestBody, ocrBody } from './wire/ocr-request.ts'
import type { OcrBody, OcrPageBody } from './wire/ocr-response.ts'

const READING = bodiesOf('ocr', ocrBody)

/** `POST /v1/ocr`, which the contract does not have, in Mistral's shape. */
export function addOcr(app: FastifyInstance, serving: Serving): void {
  addCalls(app, { bucket: 'multilook', answers: { '/v1/ocr': (call) => ocr(call, serving) } })
}

/** @returns the JSON of the response, serialised page by page: many images take long. */
export async function ocr(call: ApiCall, serving: Serving): Promise<Readable | object> {
  const { read, metered, caller, signal } = await admit(call, serving, READING)
  const { pages, byteLength } = await serving.conversations.ocr(toRequest(read.value), caller, signal)
  metered.finish(pages.some(({ isCut }) => isCut) ? 'length' : 'stop', pages.length)
  call.setHeader('content-type', 'application/json; charset=utf-8')
  const usage = { pages_processed: pages.length, doc_size_bytes: byteLength }
  let images = 0
  const toBody = (page: OcrPage) => {
    const shown = toPage(page, images, read.value)
    images += shown.images.length
    return shown
  }
  const rest = { model: read.value.model, usage_info: usage, document_annotation: null }
  return longList('pages', pages, toBody, rest satisfies Omit<OcrBody, 'pages'>)
}

function toRequest({ document, pages, ...body }: OcrRequestBody): OcrRequest {
  const selected = Array.isArray(pages) ? pages.join(',') : pages
  return {
    ...toDocument(document),
    // The conversation numbers pages from 1.
    pages: selected?.replace(/\d+/g, (page) => String(Number(page) + 1)) ?? null,
    figures: {
      shown: body.include_image_base64 === true,
      most: body.image_limit ?? null,
      leastSide: body.image_min_size ?? 0,
    },
  }
}

function toDocument(document: OcrRequestBody['document']): Pick<OcrRequest, 'document' | 'param' | 'kind'> {
  switch (document.type) {
    case 'document_url':
      return { document: { url: document.document_url }, param: ['document', 'document_url'], kind: 'document' }
    case 'image_url': {
      const { image_url: url } = document
      const isNested = typeof url === 'object' && 'url' in url
      const param = ['document', 'image_url', ...(isNested ? ['url'] : [])]
      return { document: { url: isNested ? url.url : url }, param, kind: 'image' }
    }
    case 'file':
      return { document: { fileId: document.file_id }, param: ['document', 'file_id'], kind: 'document' }
  }
}

/** @param images number of images on the previous pages. */
function toPage(page: OcrPage, images: number, body: OcrRequestBody): OcrPageBody {
  const { size, dpi, isCut } = page
  const blocks = page.blocks.map((block) => {
    if (block.type !== 'image') return { ...block, id: null }
    const id = `img-${images++}.png`
    return { ...block, content: `![${id}](${id})`, id }
  })
  const isApart = (type: OcrBlock['type']) =>
    (type === 'header' && body.extract_header === true) || (type === 'footer' && body.extract_footer === true)
  const textOf = (wanted: (block: OcrBlock) => boolean) =>
    blocks
      .filter(wanted)
      .map(({ content }) => content)
      .join('\n\n')
  return {
    index: page.index,
    markdown: textOf(({ type }) => !isApart(type)),
    images: blocks.flatMap(({ id, box, picture }) => {
      if (id === null || box === null) return []
      const url = picture === undefined ? null : `data:image/png;base64,${picture.toString('base64')}`
      return [{ id, ...toCorners(box), image_base64: url }]
    }),
    dimensions: { dpi, ...size },
    ...(body.extract_header ? { header: textOf(({ type }) => type === 'header') || null } : {}),
    ...(body.extract_footer ? { footer: textOf(({ type }) => type === 'footer') || null } : {}),
    ...(body.include_blocks === false
      ? {}
      : {
          blocks: blocks.flatMap(({ type, content, box, id }) =>
            box === null ? [] : [{ type, ...toCorners(box), content, ...(id === null ? {} : { image_id: id }) }],
          ),
        }),
    ...(isCut ? { truncated: true } : {}),
  }
}

function toCorners({ left, top, right, bottom }: NonNullable<OcrBlock['box']>) {
  return { top_left_x: left, top_left_y: top, bottom_right_x: right, bottom_right_y: bottom }
}
