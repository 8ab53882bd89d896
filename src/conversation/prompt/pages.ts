import { type ApiError, invalidRequest, say } from '../../lib/errors/errors.ts'
import { type Path, within } from '../../lib/errors/param.ts'
import { sumOf } from '../../lib/sum.ts'
import type { MediaRequest } from '../../media/media-request.ts'
import { pagesIn } from '../../media/page-selection.ts'
import {
  type ContentPart,
  type DocumentContent,
  mediaCount,
  modalityOf,
  type PlacedMessage,
  partsOf,
} from '../request/message.ts'
import { byName, MAX_MEDIA, referenceOf } from './media-parts.ts'

interface PageOptions {
  readonly media: MediaRequest
  readonly signal: AbortSignal
}

/**
 * Replaces each document by its pages. Later code sees no documents: a page is an image, with the parameter of its
 * document.
 * @throws ApiError 400 for a document that cannot be read, for missing pages, and for more pages than a request may
 * have.
 */
export async function withPages(
  messages: readonly PlacedMessage[],
  options: PageOptions,
): Promise<readonly PlacedMessage[]> {
  const placed = messages.map((message) => [...partsOf(message)])
  if (!placed.flat().some(({ part }) => isDocument(part))) return messages
  let room = MAX_MEDIA - sumOf(placed.flat(), ({ part }) => countOf(part))
  const result: PlacedMessage[] = []
  for (const [index, parts] of placed.entries()) {
    const { message } = messages[index]!
    if ((message.role !== 'user' && message.role !== 'tool') || !parts.some(({ part }) => isDocument(part))) {
      result.push(messages[index]!)
      continue
    }
    const shown: typeof parts = []
    for (const { part, param } of parts) {
      if (!isDocument(part)) shown.push({ part, param })
      else {
        const pages = await shownPages(part, within(param, part.type), room, options)
        room -= pages.length
        const texts = part.file.page_text ? await textsOf(part, within(param, part.type), pages, options) : []
        for (const [at, page] of pages.entries()) {
          shown.push({ part: { ...part, page }, param })
          if (texts[at]) shown.push({ part: { type: 'text', text: `Text of page ${page}:\n${texts[at]}\n` }, param })
        }
      }
    }
    const content = shown.map(({ part }) => part)
    const places = shown.map(({ param }) => param)
    result.push({ ...messages[index]!, message: { ...message, content }, places })
  }
  return result
}

function isDocument(part: ContentPart): part is DocumentContent {
  return part.type === 'file' && part.page === undefined
}

/** Number of images and frames, without the documents. */
function countOf(part: ContentPart): number {
  return part.type === 'text' || isDocument(part) || modalityOf(part) === 'audio' ? 0 : mediaCount(part)
}

async function shownPages(
  part: DocumentContent,
  param: Path,
  room: number,
  { media, signal }: PageOptions,
): Promise<readonly number[]> {
  const { reference, field } = referenceOf(part)
  const load = (name: string) => media.document({ reference, param: name, signal })
  const { pages: count } = await byName(within(param, field), load)
  const selection = within(param, 'pages')
  const pages: number[] = []
  for (const page of pagesIn(part.file.pages ?? null, count)) {
    if (page > count)
      throw invalidRequest(say`${selection} names page ${page}, but the document has ${count}`, selection)
    if (pages.push(page) > room) throw tooMany(count, selection)
  }
  return pages
}

/** The document's embedded text of these pages; empty for scans. */
async function textsOf(
  part: DocumentContent,
  param: Path,
  pages: readonly number[],
  { media, signal }: PageOptions,
): Promise<readonly string[]> {
  const { reference, field } = referenceOf(part)
  const load = (name: string) => media.document({ reference, param: name, signal }, pages)
  return (await byName(within(param, field), load)).texts
}

function tooMany(count: number, selection: Path): ApiError {
  return invalidRequest(
    say`The document has ${count} pages, each of which is an image, and a request may contain at most ${MAX_MEDIA} images and video frames: select pages with ${selection}, such as '1-3'`,
    selection,
  )
}
