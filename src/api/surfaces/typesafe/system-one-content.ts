import type { Content, PlacedPart } from '../../../conversation/request/decision-request.ts'
import type { ContentPart } from '../../../conversation/request/message.ts'
import { invalidRequest } from '../../../lib/errors/errors.ts'
import type { Path } from '../../../lib/errors/param.ts'
import type { InlineMedia } from '../../../media/inline-media.ts'
import { dataUrl } from '../data-url.ts'
import type { SystemOneContentBody, SystemOneRequestBody } from './wire/system-one.ts'

export type Parts = ReadonlyMap<string, InlineMedia>

/** Puts the assets of one request in place of their placeholders. */
export class AssetPlaces {
  /** The images by placeholder. An image in several places is one part, which is loaded once. */
  readonly #images: ReadonlyMap<string, PlacedPart>
  /** Null without assets. */
  readonly #pattern: RegExp | null

  readonly #longest: number
  /** Characters searched so far. */
  searched = 0

  /**
   * @param longest the maximum characters of a context: a longer text will be rejected, and is not searched.
   * @throws ApiError 400 for an asset without an image.
   */
  constructor(assets: NonNullable<SystemOneRequestBody['assets']>, parts: Parts, longest: number) {
    this.#longest = longest
    const images = new Map<string, PlacedPart>()
    for (const [placeholder, { data_base64: data, part, format }] of Object.entries(assets)) {
      const param = ['assets', placeholder]
      const url = part ? partNamed(part, parts, param) : dataUrl(data!, `image/${format ?? 'png'}`)
      const image: PlacedPart = { part: { type: 'image_url', image_url: { url } }, param }
      // JSON escapes some characters.
      for (const form of [placeholder, JSON.stringify(placeholder).slice(1, -1)]) images.set(form, image)
    }
    this.#images = images
    // Longer ones first, because one may begin with another.
    const placeholders = [...images.keys()].sort((a, b) => b.length - a.length)
    this.#pattern = placeholders.length === 0 ? null : new RegExp(`(${placeholders.map(escaped).join('|')})`)
  }

  /** Converts a value to text and images. A value other than text is written as JSON, with the images within it. */
  fill(value: SystemOneContentBody | undefined, param: Path): Content {
    if (value === null || value === undefined || value === '') return []
    const text = typeof value === 'string' ? value : value.json
    if (this.#pattern === null || text.length > this.#longest) return [{ part: { type: 'text', text }, param }]
    this.searched += text.length
    return text.split(this.#pattern).flatMap((piece): Content => {
      const image = this.#images.get(piece)
      if (image !== undefined) return [image]
      return piece === '' ? [] : [{ part: textPart(piece), param }]
    })
  }
}

/** Returns the name of the asset at this place in the request; null for other places. */
export function assetOf([first, name]: Path): string | null {
  return first === 'assets' ? String(name) : null
}

function textPart(text: string): ContentPart {
  return { type: 'text', text }
}

function partNamed(name: string, parts: Parts, param: Path): InlineMedia {
  const media = parts.get(name)
  if (media === undefined) throw invalidRequest(`The form has no part '${name.slice(0, 100)}'`, [...param, 'part'])
  return media
}

function escaped(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')
}
