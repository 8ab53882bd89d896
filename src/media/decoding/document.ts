import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { init, type WrappedPdfiumModule } from '@embedpdf/pdfium'
import { collectBuffers } from '../../lib/guarded/memory.ts'
import { regionPixels } from '../coordinates.ts'
import type { RgbImage, Size } from '../pixels.ts'
import { resizeBicubic, targetSize } from '../resize.ts'
import type { ByteSource } from './byte-source.ts'
import { InvalidMedia } from './invalid-media.ts'
import type { DecodedDocument, DecodedImage, DocumentTask, PageTask } from './process/protocol.ts'

interface Memory {
  readonly buffer: ArrayBuffer
  grow(pages: number): number
}
interface Compiled {
  readonly exports: { readonly memory: Memory }
}
interface Imports {
  readonly env: { readonly emscripten_resize_heap: (bytes: number) => number }
}
/** The part of Node's global that is used here. Only the types of browsers declare it. */
declare const WebAssembly: {
  compile(bytes: Uint8Array): Promise<{ readonly compiled: unique symbol }>
  instantiate(module: { readonly compiled: symbol }, imports: Imports): Promise<Compiled>
}

/** Makes an instance of PDFium, with memory of its own. */
export type Pdfium = () => Promise<Instance>

interface Instance {
  readonly library: WrappedPdfiumModule
  readonly limit: {
    bytes: number
    /** Whether PDFium has asked for more memory. It then leaves images out without an error. */
    isBroken: boolean
  }
}

/** A page has no pixels of its own. This is the usual resolution of scanners and of models for documents. */
const DPI = 200
const PIXELS_PER_POINT = DPI / 72
/** In pixels. Pages of maps and plans would exceed it. */
const MAX_SIDE = 16_384
/**
 * The most memory that PDFium may use for its copy of the file, for decompressed data and for the rendered page. The
 * process itself takes some 100 MiB more, and a file from a request's body its bytes: less than 512 MB in all.
 */
const MEMORY_BYTES = 352 * 2 ** 20
const WASM_PAGE_BYTES = 2 ** 16
/** The most characters of a page's text: a densely printed one has a tenth of them. */
const MOST_CHARACTERS = 50_000
/** The most annotations that one task flattens into its pages, which takes a tenth of a millisecond each. */
const MOST_FIXED = 20_000
/** The most pixels of a rendered page, of three bytes each. */
const MAX_PIXELS = 17_000_000
/** The file is copied in pieces, so that the process holds it once. */
const PIECE_BYTES = 2 ** 20

const PASSWORD_ERROR = 4
const SECURITY_ERROR = 5
/** Opaque. */
const FORMAT_BGR = 2
const DRAW_ANNOTATIONS = 1
const RED_FIRST = 0x10
const WHITE = 0xffffffff
const NO_FORM = 0
const WIDGET = 20
const FOR_DISPLAY = 0

/** Compiles PDFium, which takes a tenth of a second, before the process gives up the right to read files. */
export async function loadPdfium(): Promise<Pdfium> {
  const file = fileURLToPath(import.meta.resolve('@embedpdf/pdfium/pdfium.wasm'))
  const compiled = await WebAssembly.compile(await readFile(file))
  const make = async () => {
    const limit = { bytes: MEMORY_BYTES, isBroken: false }
    const library = await init({
      print() {},
      printErr() {},
      instantiateWasm({ env, ...imports }: Imports, done: (instance: Compiled) => void) {
        const emscripten_resize_heap = (bytes: number) => {
          const hasGrown = env.emscripten_resize_heap(bytes)
          limit.isBroken ||= !hasGrown
          return hasGrown
        }
        WebAssembly.instantiate(compiled, { ...imports, env: { ...env, emscripten_resize_heap } }).then((instance) => {
          bound(instance.exports.memory, limit)
          done(instance)
        })
        return {}
      },
    } as Parameters<typeof init>[0])
    library.PDFiumExt_Init()
    return { library, limit }
  }
  // V8 keeps the first instance for as long as the process runs: one that has held no document.
  await make()
  return make
}

/** Limits the heap, which tries to grow by a fifth more than it needs, and by less if that fails. */
function bound(memory: Memory, limit: Instance['limit']): void {
  const grow = memory.grow.bind(memory)
  memory.grow = (pages) => {
    if (memory.buffer.byteLength + pages * WASM_PAGE_BYTES > limit.bytes) throw new RangeError('Too much memory')
    return grow(pages)
  }
}

export async function readDocument(
  pdfium: Pdfium,
  { data, textOf }: DocumentTask<ByteSource>,
): Promise<DecodedDocument> {
  const opened = await open(pdfium, data)
  const pages = opened.library.FPDF_GetPageCount(opened.document)
  if (pages < 1) throw new InvalidMedia('The document has no pages')
  const texts = textOf.map((page) => {
    const text = within(opened, () => textOfPage(opened, page))
    if (text === null) throw takesTooMuch(page)
    return text
  })
  return { pages, dpi: DPI, texts }
}

/**
 * Controls except tabs and line ends, code points that are no characters, and those that each font draws in its own
 * way.
 */
const UNPRINTED = /[^\P{Cc}\t\n]|[\uFFFD\uFFFE\uE000-\uF8FF]/gu

const LETTER = /[\p{L}\p{N}]/u
/** Pages with more objects are not checked for text that is not drawn: they are maps, which take seconds even so. */
const MOST_OBJECTS = 20_000
/** The most characters to look up in fonts: each takes milliseconds if the font's character table is large. */
const MOST_GLYPHS = 300
/** Render modes of text that draws nothing. */
const UNSEEN_TEXT = [3, 7]

/** The text of a page as a PDF viewer would copy it, without glyphs that Unicode has no character for. */
function textOfPage(opened: OpenDocument, number: number): string {
  const { library, document } = opened
  fixFields(opened, number)
  const page = library.FPDF_LoadPage(document, number - 1)
  const text = page === 0 ? 0 : library.FPDFText_LoadPage(page)
  const count = text === 0 ? 0 : Math.min(library.FPDFText_CountChars(text), MOST_CHARACTERS)
  if (count <= 0) return ''
  const { wasmExports } = library.pdfium
  // UTF-16, and a zero at its end. A character may take two units.
  const bytes = 4 * count + 2
  const address = wasmExports.malloc(bytes)
  if (address === 0) throw takesTooMuch(number)
  const units = library.FPDFText_GetText(text, 0, count, address)
  const copied = Buffer.from(heapOf(library).subarray(address, address + 2 * Math.max(0, units - 1)))
  library.FPDFText_ClosePage(text)
  library.FPDF_ClosePage(page)
  wasmExports.free(address)
  return copied.toString('utf16le').toWellFormed().replace(/\r\n?/g, '\n').replace(UNPRINTED, '').trim()
}

/** Flattens form fields into their page, whose text does not include them otherwise. */
function fixFields(opened: OpenDocument, number: number): void {
  const { library, document } = opened
  const page = library.FPDF_LoadPage(document, number - 1)
  const count = library.FPDFPage_GetAnnotCount(page)
  if (count <= opened.fixable) {
    withForm(opened, page, () => {
      library.FPDFPage_Flatten(page, FOR_DISPLAY)
      opened.fixable -= count
    })
  }
  library.FPDF_ClosePage(page)
}

/**
 * Generates the appearance of fields that have only a value, as in forms that a program has filled in.
 * @param use gets the environment of the form; not called for a page without fields.
 */
function withForm(opened: OpenDocument, page: number, use: (environment: number) => void): void {
  const { library } = opened
  if (page === 0 || !hasFields(library, page)) return
  opened.form ??= openForm(opened)
  if (opened.form === 0) return
  library.FORM_OnAfterLoadPage(page, opened.form)
  use(opened.form)
  library.FORM_OnBeforeClosePage(page, opened.form)
}

function hasFields(library: WrappedPdfiumModule, page: number): boolean {
  const count = library.FPDFPage_GetAnnotCount(page)
  for (let index = 0; index < count; index++) {
    const annotation = library.FPDFPage_GetAnnot(page, index)
    if (annotation === 0) continue
    const subtype = library.FPDFAnnot_GetSubtype(annotation)
    library.FPDFPage_CloseAnnot(annotation)
    if (subtype === WIDGET) return true
  }
  return false
}

/**
 * Takes time for each field of all pages.
 * @returns 0 for a document without a form.
 */
function openForm({ library, document }: OpenDocument): number {
  if (library.FPDF_GetFormType(document) === NO_FORM) return 0
  const info = library.PDFiumExt_OpenFormFillInfo()
  return info === 0 ? 0 : library.PDFiumExt_InitFormFillEnvironment(document, info)
}

/** Renders a page as it is printed: cropped, turned, and with its annotations and fields, on white. */
export async function renderPage(pdfium: Pdfium, task: PageTask<ByteSource>): Promise<DecodedImage> {
  const page = await attempt(pdfium, task, 1)
  if (page !== null) return page
  collectBuffers()
  // A quarter of the pixels: PDFium's intermediate copies of the page's images shrink with them.
  const small = await attempt(pdfium, task, 2)
  if (small === null) throw takesTooMuch(task.page)
  const half = `Page ${task.page} of a document is drawn at half its size, because its images take too much memory`
  return { ...small, notes: [half, ...(small.notes ?? [])] }
}

/** @returns null when the page takes too much, as `within` does. */
async function attempt(pdfium: Pdfium, task: PageTask<ByteSource>, shrink: number): Promise<DecodedImage | null> {
  const opened = await open(pdfium, task.data)
  return within(opened, () => render(opened, task, shrink))
}

/** @returns null when the work took more memory or a deeper stack than there is. */
function within<Result>({ limit }: OpenDocument, work: () => Result): Result | null {
  try {
    const result = work()
    return limit.isBroken ? null : result
  } catch (error) {
    if (error instanceof InvalidMedia) throw error
    return null
  }
}

function takesTooMuch(page: number): InvalidMedia {
  return new InvalidMedia(`Page ${page} of the document takes too much memory, or its drawings are nested too deeply`)
}

function render(opened: OpenDocument, task: PageTask<ByteSource>, shrink: number): DecodedImage {
  const { library, document, limit } = opened
  const { page: number, target: wanted, region } = task
  const page = library.FPDF_LoadPage(document, number - 1)
  if (page === 0) throw new InvalidMedia(`Page ${number} of the document is damaged`)
  const original = sizeOf(library.FPDF_GetPageWidthF(page), library.FPDF_GetPageHeightF(page))
  const part = region === null ? { left: 0, top: 0, ...original } : regionPixels(region, original)
  const target = 'width' in wanted ? wanted : targetSize(part, wanted)
  if (target.width * target.height > MAX_PIXELS) throw new InvalidMedia(`Page ${number} of the document is too large`)
  const [width, height] = [Math.ceil(target.width / shrink), Math.ceil(target.height / shrink)]
  limit.bytes -= 3 * width * height
  const bitmap = library.FPDFBitmap_CreateEx(width, height, FORMAT_BGR, 0, 0)
  if (bitmap === 0) throw takesTooMuch(number)
  library.FPDFBitmap_FillRect(bitmap, 0, 0, width, height, WHITE)
  const [across, down] = [width / part.width, height / part.height]
  const place = [-part.left * across, -part.top * down, original.width * across, original.height * down].map(Math.round)
  const [left, top, wide, tall] = place as [number, number, number, number]
  library.FPDF_RenderPageBitmap(bitmap, page, left, top, wide, tall, 0, DRAW_ANNOTATIONS | RED_FIRST)
  // Those of a form are not among the annotations.
  withForm(opened, page, (form) => library.FPDF_FFLDraw(form, bitmap, page, left, top, wide, tall, 0, RED_FIRST))
  const image = { width, height, data: rgbOf(library, bitmap, { width, height }) }
  // A page that was drawn is not a failure, even if there is no memory left to check its text.
  const isBroken = limit.isBroken
  const isWhole = within(opened, () => isDrawn(library, page)) ?? true
  limit.isBroken = isBroken
  const notes = isWhole
    ? []
    : [`Page ${number} of a document has characters that are not drawn: the file does not hold their fonts`]
  return { image: resizeBicubic(image, target), original, notes }
}

/**
 * Whether the page's letters and digits are drawn, as far as they are checked. For fonts that a file does not embed,
 * PDFium has substitutes for Western languages only.
 */
function isDrawn(library: WrappedPdfiumModule, page: number): boolean {
  if (library.FPDFPage_CountObjects(page) > MOST_OBJECTS) return true
  const text = library.FPDFText_LoadPage(page)
  const count = text === 0 ? 0 : Math.min(library.FPDFText_CountChars(text), MOST_CHARACTERS)
  const seen = new Set<string>()
  let isWhole = true
  for (let index = 0; index < count && isWhole && seen.size < MOST_GLYPHS; index++) {
    const code = library.FPDFText_GetUnicode(text, index)
    const object = library.FPDFText_GetTextObject(text, index)
    // The invisible text of OCR on a scan.
    if (object === 0 || UNSEEN_TEXT.includes(library.FPDFTextObj_GetTextRenderMode(object))) continue
    const font = library.FPDFTextObj_GetFont(object)
    const key = `${font} ${code}`
    if (seen.has(key) || library.FPDFFont_GetIsEmbedded(font) !== 0) continue
    // A file may give code points that do not exist.
    if (code < 0 || code > 0x10ffff || !LETTER.test(String.fromCodePoint(code))) continue
    seen.add(key)
    const path = library.FPDFFont_GetGlyphPath(font, code, 1)
    isWhole = path !== 0 && library.FPDFGlyphPath_CountGlyphSegments(path) > 0
  }
  library.FPDFText_ClosePage(text)
  return isWhole
}

interface OpenDocument extends Instance {
  readonly document: number
  /** The environment of its form, once a page needs it; 0 if it has no form. The instance frees both. */
  form: number | null
  /** How many more annotations may be flattened into their pages. */
  fixable: number
}

/** An instance lives as long as its task, so that no document can see another's data. */
async function open(pdfium: Pdfium, data: ByteSource): Promise<OpenDocument> {
  const instance = await pdfium()
  const { library } = instance
  const address = library.pdfium.wasmExports.malloc(data.length)
  if (address === 0) throw new InvalidMedia('The document takes too much memory')
  const heap = heapOf(library)
  for (let at = 0; at < data.length; at += PIECE_BYTES) heap.set(data.read(at, PIECE_BYTES), address + at)
  const document = library.FPDF_LoadMemDocument(address, data.length, '')
  if (document !== 0) return { ...instance, document, form: null, fixable: MOST_FIXED }
  const error = library.FPDF_GetLastError()
  throw new InvalidMedia(
    error === PASSWORD_ERROR || error === SECURITY_ERROR
      ? 'The document is protected by a password: remove it and send the file again'
      : 'The document is damaged or no PDF',
  )
}

function heapOf({ pdfium: { wasmExports } }: WrappedPdfiumModule): Uint8Array {
  // The memory's buffer is another one after each growth.
  return new Uint8Array((wasmExports as unknown as Compiled['exports']).memory.buffer)
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
  for (let y = 0, at = start; y < height; y++, at += stride) rgb.set(heap.subarray(at, at + 3 * width), 3 * width * y)
  return rgb
}
