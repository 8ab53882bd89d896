import type { Path } from '../../lib/errors/param.ts'
import type { MediaReference } from '../../media/media-source.ts'
import type { MediaUrl } from './message.ts'

/** A parsed request to read the pages of a document. */
export interface OcrRequest {
  readonly document: { readonly url: MediaUrl } | { readonly fileId: string }
  /** The parameter that holds it. */
  readonly param: Path
  /** The kind that the client names. It may turn out to be the other. */
  readonly kind: 'document' | 'image'
  /** The selection of pages, for `pagesIn`; null for all. */
  readonly pages: string | null
  readonly figures: {
    /** Whether the reply includes them. */
    readonly shown: boolean
    /** The most figures of a document; null for any number. */
    readonly most: number | null
    /** Figures with a shorter side than this, in pixels, are left out. */
    readonly leastSide: number
  }
}

export function referenceOf({ document }: OcrRequest): MediaReference {
  if ('fileId' in document) return { type: 'file', id: document.fileId }
  const { url } = document
  if (typeof url === 'string') return { type: 'url', url }
  if ('bytes' in url) return { type: 'inline', media: url }
  throw new Error('A document is no frame of a camera')
}
