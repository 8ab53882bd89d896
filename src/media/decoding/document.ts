import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { init, type WrappedPdfiumModule } from '@embedpdf/pdfium'
import { regionPixels } from '../coordinates.ts'
import type { RgbImage, Size } from '../pixels.ts'
import { targetSize } from '../resize.ts'
import type { ByteSource } from './byte-source.ts'
import { InvalidMedia } from './invalid-media.ts'
import type { DecodedDocument, DecodedImage, DocumentTask, PageTask } from './protocol.ts'

type Imports = Readonly<Record<string, Readonly<Record<string, unknown>>>>
/** What is needed here of Node's global, which only browsers' types have. */
declare const WebAssembly: {
  compile(bytes: Uint8Array): Promise<{ readonly compiled: unique symbol }>
  instantiate(module: { readonly compiled: symbol }, imports: Imports): Promise<object>
}

/** Makes an instance of PDFium, with memory of its own. */
export type Pdfium = () => Promise<WrappedPdfiumModule>

/** A page has no pixels of its own. Scanners and models of documents are used to as many in an inch. */
const DPI = 200
const PIXELS_PER_POINT = DPI / 72
/** Pages of maps and plans would have more. */
const MAX_SIDE = 16_384
/** The most memory of PDFium: its copy of the file, what it decompresses, and the page. */
const MEMORY_BYTES = 512 * 2 ** 20
/** The most characters of a page's text: a densely printed one has a tenth of them. */
const MOST_CHARACTERS = 50_000
/** The most pixels of a rendered page, of four bytes each. */
const MAX_PIXELS = 36_000_000

const PASSWORD_ERROR = 4
const SECURITY_ERROR = 5
/** Opaque, red first. */
const FORMAT_BGRX = 3
const DRAW_ANNOTATIONS = 1
const RED_FIRST = 0x10
const WHITE = 0xffffffff

/** Compiles PDFium, which takes a tenth of a second, before the process gives up the right to read files. */
export async function loadPdfium(): Promise<Pdfium> {
  const file = fileURLToPath(import.meta.resolve('@embedpdf/pdfium/pdfium.wasm'))
  const compiled = await WebAssembly.compile(await readFile(file))
  return async () => {
    const instance = await init({
      print() {},
      printErr() {},
      instantiateWasm(imports: Imports, done: (instance: object) => void) {
        WebAssembly.instantiate(compiled, bounded(imports)).then(done)
        return {}
      },
    } as Parameters<typeof init>[0])
    instance.PDFiumExt_Init()
    return instance
  }
}

function bounded(imports: Imports): Imports {
  const grow = imports.env!.emscripten_resize_heap as (bytes: number) => number
  const emscripten_resize_heap = (bytes: number) => (bytes > MEMORY_BYTES ? 0 : grow(bytes))
  return { ...imports, env: { ...imports.env, emscripten_resize_heap } }
}

export async function readDocument(
  pdfium: Pdfium,
  { data, textOf }: DocumentTask<ByteSource>,
): Promise<DecodedDocument> {
  const opened = await open(pdfium, data)
  const pages = opened.library.FPDF_GetPageCount(opened.document)
  if (pages < 1) throw new InvalidMedia('The document has no pages')
  return { pages, dpi: DPI, texts: textOf.map((page) => within(page, () => textOfPage(opened, page))) }
}

/** Controls but tabs and line ends, what is no character, and those that each font draws in its own way. */
const UNPRINTED = /[^\P{Cc}\t\n]|[\uFFFD\uFFFE\uE000-\uF8FF]/gu

/** The text of a page as a reader of the file would copy it, without what Unicode has no character for. */
function textOfPage({ library, document }: OpenDocument, number: number): string {
  const page = library.FPDF_LoadPage(document, number - 1)
  const text = page === 0 ? 0 : library.FPDFText_LoadPage(page)
  const count = text === 0 ? 0 : Math.min(library.FPDFText_CountChars(text), MOST_CHARACTERS)
  if (count <= 0) return ''
  const { wasmExports } = library.pdfium
  // UTF-16, and a zero at its end. A character may take two units.
  const bytes = 4 * count + 2
  const address = wasmExports.malloc(bytes)
  if (address === 0) throw new InvalidMedia(`The text of page ${number} of the document takes too much memory`)
  const units = library.FPDFText_GetText(text, 0, count, address)
  const copied = Buffer.from(heapOf(library).subarray(address, address + 2 * Math.max(0, units - 1)))
  library.FPDFText_ClosePage(text)
  library.FPDF_ClosePage(page)
  wasmExports.free(address)
  return copied.toString('utf16le').toWellFormed().replace(/\r\n?/g, '\n').replace(UNPRINTED, '').trim()
}

/** Renders a page as it is printed: cropped, turned and with its annotations, on white. */
export async function renderPage(pdfium: Pdfium, task: PageTask<ByteSource>): Promise<DecodedImage> {
  const opened = await open(pdfium, task.data)
  return within(task.page, () => render(opened, task))
}

function within<Result>(page: number, work: () => Result): Result {
  try {
    return work()
  } catch (error) {
    if (error instanceof InvalidMedia) throw error
    // WebAssembly ran out of its memory or its stack.
    throw new InvalidMedia(`Page ${page} of the document takes too much memory, or its drawings are nested too deeply`)
  }
}

function render({ library, document }: OpenDocument, task: PageTask<ByteSource>): DecodedImage {
  const { page: number, target: wanted, region } = task
  const page = library.FPDF_LoadPage(document, number - 1)
  if (page === 0) throw new InvalidMedia(`Page ${number} of the document is damaged`)
  const original = sizeOf(library.FPDF_GetPageWidthF(page), library.FPDF_GetPageHeightF(page))
  const part = region === null ? { left: 0, top: 0, ...original } : regionPixels(region, original)
  const target = 'width' in wanted ? wanted : targetSize(part, wanted)
  const { width, height } = target
  if (width * height > MAX_PIXELS) throw new InvalidMedia(`Page ${number} of the document is too large`)
  const bitmap = library.FPDFBitmap_CreateEx(width, height, FORMAT_BGRX, 0, 0)
  if (bitmap === 0) throw new InvalidMedia(`Page ${number} of the document takes too much memory`)
  library.FPDFBitmap_FillRect(bitmap, 0, 0, width, height, WHITE)
  const [across, down] = [width / part.width, height / part.height]
  const place = [-part.left * across, -part.top * down, original.width * across, original.height * down].map(Math.round)
  const [left, top, wide, tall] = place as [number, number, number, number]
  library.FPDF_RenderPageBitmap(bitmap, page, left, top, wide, tall, 0, DRAW_ANNOTATIONS | RED_FIRST)
  return { image: { ...target, data: rgbOf(library, bitmap, target) }, original }
}

interface OpenDocument {
  readonly library: WrappedPdfiumModule
  readonly document: number
}

/** An instance lives as long as its task, so that no document finds anything of another. */
async function open(pdfium: Pdfium, data: ByteSource): Promise<OpenDocument> {
  const library = await pdfium()
  const { wasmExports } = library.pdfium
  const bytes = data.all()
  const address = wasmExports.malloc(bytes.length)
  if (address === 0) throw new InvalidMedia('The document takes too much memory')
  heapOf(library).set(bytes, address)
  const document = library.FPDF_LoadMemDocument(address, bytes.length, '')
  if (document !== 0) return { library, document }
  const error = library.FPDF_GetLastError()
  throw new InvalidMedia(
    error === PASSWORD_ERROR || error === SECURITY_ERROR
      ? 'The document is protected by a password: remove it and send the file again'
      : 'The document is damaged or no PDF',
  )
}

function heapOf({ pdfium: { wasmExports } }: WrappedPdfiumModule): Uint8Array {
  // Another one after each time that it grows.
  return new Uint8Array((wasmExports as unknown as { readonly memory: { readonly buffer: ArrayBuffer } }).memory.buffer)
}

/** @param width in points, as is the height. */
function sizeOf(width: number, height: number): Size {
  const scale = Math.min(PIXELS_PER_POINT, MAX_SIDE / Math.max(width, height))
  const sideOf = (points: number) => Math.max(1, Math.round(points * scale) || 1)
  return { width: sideOf(width), height: sideOf(height) }
}

function rgbOf(library: WrappedPdfiumModule, bitmap: number, { width, height }: Size): RgbImage['data'] {
  const stride = library.FPDFBitmap_GetStride(bitmap)
  const start = library.FPDFBitmap_GetBuffer(bitmap)
  const heap = heapOf(library)
  const rgb = new Uint8Array(width * height * 3)
  for (let y = 0, o = 0; y < height; y++) {
    for (let x = 0, i = start + y * stride; x < width; x++, i += 4) {
      rgb[o++] = heap[i]!
      rgb[o++] = heap[i + 1]!
      rgb[o++] = heap[i + 2]!
    }
  }
  return rgb
}
