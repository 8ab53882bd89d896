import type { PageBlock, PageBox } from '../grounding/pages/page.ts'
import { ApiError, invalidRequest, say } from '../lib/errors/errors.ts'
import { type GridRegion, regionPixels } from '../media/coordinates.ts'
import type { DecodedImage } from '../media/decoding/process/protocol.ts'
import { type ImageTarget, targetFor } from '../media/image-detail.ts'
import { locate } from '../media/media-source.ts'
import { pagesIn } from '../media/page-selection.ts'
import type { Size } from '../media/pixels.ts'
import { encodePng } from '../media/png.ts'
import type { Call } from './call/call.ts'
import { named } from './call/capability-checks.ts'
import { Patience } from './call/patience.ts'
import { readPage } from './page-reading.ts'
import { byName, MAX_MEDIA, someAtATime } from './prompt/media-parts.ts'
import { type OcrRequest, referenceOf } from './request/ocr-request.ts'

export interface OcrReply {
  /** In the order of the request. */
  readonly pages: readonly OcrPage[]
  /** Size of the document in bytes; null if it was not part of the request. */
  readonly byteLength: number | null
}

export interface OcrPage {
  /** Counted from 0. */
  readonly index: number
  /** Size of the page as an image, in pixels: the unit of its places. */
  readonly size: Size
  readonly dpi: number
  readonly blocks: readonly OcrBlock[]
  /** Whether the model had no room for the rest of the page. */
  readonly isCut: boolean
}

export interface OcrBlock extends Omit<PageBlock, 'box'> {
  /** Left, top, right and bottom in pixels; null if the model gives none. An image always has one. */
  readonly box: PageBox | null
  /** PNG of an image, if the reply includes images. */
  readonly picture?: Buffer
}

/** Pages that are rendered and read at the same time. */
const PAGES_AT_ONCE = 4
/** Resolution of a picture that has none of its own. */
const PICTURE_DPI = 72
/** Larger figures are shrunk. */
const FIGURE_PIXELS = 4_000_000
/** The most bytes of all figures. */
const FIGURE_BYTES = 64 * 2 ** 20
const PAGES = ['pages']

/**
 * Reads the pages of a document, each as a work of its own.
 * @throws ApiError 400 for a model without image input, a document that cannot be opened, and missing or too many
 * pages.
 */
export async function readPages(request: OcrRequest, call: Call): Promise<OcrReply> {
  const { model } = call
  if (!model.served.modalities.includes('image')) {
    throw invalidRequest(`${named(model)} sees no images, so it cannot read pages`, 'model')
  }
  const byteLength = await byteLengthOf(request)
  const limits = targetFor(model.card.image!, 'high')
  const document = await open(request, limits, call)
  const numbers = numbersOf(request, document.count)
  const patience = new Patience(call)
  const pages: OcrPage[] = []
  let bytes = 0
  const read = async ([at, number]: [number, number]) => {
    const page = await document.load(number, limits)
    const { blocks, isCut } = await readPage(page, { call, admit: patience.generate })
    const size = page.original
    const placed: OcrBlock[] = []
    for (const block of figuresLimited(inPixels(blocks, size), request)) {
      if (block.type !== 'image' || !request.figures.shown) placed.push(block)
      else {
        const picture = await figureOf(number, block.box!, size, document)
        bytes += picture.byteLength
        if (bytes > FIGURE_BYTES) throw tooMuch()
        placed.push({ ...block, picture })
      }
    }
    pages[at] = { index: number - 1, size, dpi: document.dpi, blocks: placed, isCut }
  }
  await someAtATime([...numbers.entries()], read, PAGES_AT_ONCE)
  return { pages: withFewer(pages, request), byteLength }
}

interface OpenDocument {
  readonly count: number
  readonly dpi: number
  /** @param page from 1. */
  load(page: number, target: ImageTarget | Size, region?: GridRegion): Promise<DecodedImage>
}

/** Opens a document as the kind that the client names, or otherwise as the kind that it is. */
async function open(request: OcrRequest, limits: ImageTarget, { media, signal }: Call): Promise<OpenDocument> {
  const reference = referenceOf(request)
  const named = <Result>(load: (input: Parameters<typeof media.document>[0]) => Promise<Result>) =>
    byName(request.param, (param) => load({ reference, param, signal, isUsedOnce: true }))
  const asDocument = async (): Promise<OpenDocument> => {
    const { pages: count, dpi } = await named((input) => media.document(input))
    return { count, dpi, load: (page, target, region) => named((input) => media.page(input, page, target, region)) }
  }
  const asImage = async (): Promise<OpenDocument> => {
    const whole = await named((input) => media.image(input, limits))
    return {
      count: 1,
      dpi: PICTURE_DPI,
      load: async (_page, target, region) =>
        region === undefined ? whole : named((input) => media.image(input, target, region)),
    }
  }
  const [first, other] = request.kind === 'document' ? [asDocument, asImage] : [asImage, asDocument]
  try {
    return await first()
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 400) throw error
    return await other().catch(() => {
      throw error
    })
  }
}

/** @returns numbers of pages, from 1. */
function numbersOf({ pages: selection }: OcrRequest, count: number): readonly number[] {
  const numbers: number[] = []
  for (const page of pagesIn(selection, count)) {
    if (page > count) {
      throw invalidRequest(
        say`${PAGES} names page ${page - 1}, but the document has ${count === 1 ? 'only page 0' : `pages 0 to ${count - 1}`}`,
        PAGES,
      )
    }
    if (numbers.push(page) > MAX_MEDIA) {
      throw invalidRequest(
        say`The document has ${count} pages, and a request may read at most ${MAX_MEDIA}: select some with ${PAGES}, such as '0-${MAX_MEDIA - 1}'`,
        PAGES,
      )
    }
  }
  return numbers
}

function inPixels(blocks: readonly PageBlock[], { width, height }: Size): OcrBlock[] {
  return blocks.map((block) => {
    if (block.box === null) return block
    const { left, top, right, bottom } = block.box
    const box = { left: left * width, top: top * height, right: right * width, bottom: bottom * height }
    return { ...block, box: mapValues(box, Math.round) }
  })
}

function mapValues(box: PageBox, of: (value: number) => number): PageBox {
  return { left: of(box.left), top: of(box.top), right: of(box.right), bottom: of(box.bottom) }
}

/** Leaves out images that are too small, have no place, or exceed the limit of a document. */
function figuresLimited(blocks: readonly OcrBlock[], { figures: { leastSide, most } }: OcrRequest): OcrBlock[] {
  let left = most ?? Number.POSITIVE_INFINITY
  return blocks.filter(({ type, box }) => {
    if (type !== 'image') return true
    if (box === null) return false
    const side = Math.min(box.right - box.left, box.bottom - box.top)
    return side >= Math.max(1, leastSide) && left-- > 0
  })
}

/** Leaves out images of later pages that exceed the limit of a document. */
function withFewer(pages: readonly OcrPage[], { figures: { most } }: OcrRequest): readonly OcrPage[] {
  if (most === null) return pages
  let left = most
  return pages.map((page) => ({ ...page, blocks: page.blocks.filter(({ type }) => type !== 'image' || left-- > 0) }))
}

async function figureOf(page: number, box: PageBox, size: Size, document: OpenDocument): Promise<Buffer> {
  const grid = (value: number, side: number, round: (value: number) => number) =>
    Math.min(Math.max(round((value / side) * 1000), 0), 1000)
  const region = {
    left: grid(box.left, size.width, Math.floor),
    top: grid(box.top, size.height, Math.floor),
    right: grid(box.right, size.width, Math.ceil),
    bottom: grid(box.bottom, size.height, Math.ceil),
  }
  const { width, height } = regionPixels(region, size)
  const shrunk = Math.min(1, Math.sqrt(FIGURE_PIXELS / (width * height)))
  const target = { width: Math.ceil(width * shrunk), height: Math.ceil(height * shrunk) }
  return encodePng((await document.load(page, target, region)).image)
}

function tooMuch(): ApiError {
  const limit = FIGURE_BYTES / 2 ** 20
  return invalidRequest(`The images of the pages take more than ${limit} MiB; select fewer pages or set image_limit`, [
    'include_image_base64',
  ])
}

async function byteLengthOf(request: OcrRequest): Promise<number | null> {
  const located = await byName(request.param, async (param) => locate(referenceOf(request), param))
  return located.type === 'bytes' ? located.bytes.byteLength : null
}
