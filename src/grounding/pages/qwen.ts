import { withoutFence } from './markdown.ts'
import { type BlockType, boxOf, type PageBlock, type PageBox, type PageNotation, textBlocks, upTo } from './page.ts'

/** Qwen3-VL: HTML whose elements have `data-bbox="x1 y1 x2 y2"`, on a grid of 0..1000. Its cookbook: `document_parsing.ipynb`. */
export const qwen3VlPage: PageNotation = (written) => pageOf(written, upTo(1000))

/** Qwen2.5-VL: the same, in pixels of the picture as the model sees it. */
export const qwen25VlPage: PageNotation = (written, picture) => pageOf(written, picture)

const TAG = /<(\/?)([a-z][a-z0-9]*)\b((?:[^<>"']|"[^"]*"|'[^']*')*)>|<![^<>]*>/gi
/** A truncated tag. */
const BEGUN = /<(?:\/?[a-z][^<>]*|!?-*)$/i
const BLOCK_TAGS = /^(?:h[1-6]|p|li|pre|div|figure|figcaption|caption|header|footer|section|article)$/
const SPANS = /\s(?:col|row)span\s*=\s*["']?\d+["']?/gi

function pageOf(written: string, most: Parameters<typeof boxOf>[1]): PageBlock[] {
  const html = withoutFence(written)
  const reader = new HtmlReader((attributes) => boxOf(numbersIn(attributes, 'data-bbox'), most))
  let from = 0
  for (const tag of html.matchAll(TAG)) {
    reader.text(html.slice(from, tag.index))
    from = tag.index + tag[0].length
    const [, close, name, attributes = ''] = tag
    if (name !== undefined && close === '') reader.open(name.toLowerCase(), attributes)
    else if (name !== undefined) reader.close(name.toLowerCase())
  }
  if (from === 0) return textBlocks(html)
  reader.text(html.slice(from).replace(BEGUN, ''))
  return reader.end()
}

function attribute(attributes: string, name: string): string {
  return new RegExp(`\\b${name}\\s*=\\s*(?:"([^"]*)"|'([^']*)')`, 'i').exec(attributes)?.slice(1).join('') ?? ''
}

function numbersIn(attributes: string, name: string): number[] {
  return (attribute(attributes, name).match(/\d+(?:\.\d+)?/g) ?? []).map(Number)
}

interface OpenBlock {
  readonly type: BlockType
  /** The Markdown before its text. */
  readonly mark: string
  readonly box: PageBox | null
  text: string
}

/** Converts HTML to blocks: Markdown, except for tables, which stay HTML. */
class HtmlReader {
  readonly #boxIn: (attributes: string) => PageBox | null
  readonly #blocks: PageBlock[] = []
  /** Numbers of the next items of the open lists; null for those without numbers. */
  readonly #lists: (number | null)[] = []
  #block: OpenBlock | null = null
  #tables = 0

  constructor(boxIn: (attributes: string) => PageBox | null) {
    this.#boxIn = boxIn
  }

  text(text: string): void {
    if (this.#block === null && text.trim() === '') return
    this.#block ??= { type: 'text', mark: '', box: null, text: '' }
    const isKept = this.#block.type === 'code' || this.#tables > 0
    this.#block.text += isKept ? text : text.replace(/\s+/g, ' ')
  }

  open(name: string, attributes: string): void {
    const box = this.#boxIn(attributes)
    if (name === 'table' && this.#tables++ === 0) this.#begin('table', '', box)
    if (this.#tables > 0) this.text(`<${name}${(attributes.match(SPANS) ?? []).join('')}>`)
    else if (name === 'br') this.#append('\n')
    else if (name === 'ul' || name === 'ol') this.#lists.push(name === 'ol' ? 1 : null)
    else if (name === 'img') this.#figure(box)
    else if (BLOCK_TAGS.test(name)) this.#begin(typeOf(name, attribute(attributes, 'class')), this.#markOf(name), box)
  }

  close(name: string): void {
    if (this.#tables > 0) {
      this.text(`</${name}>`)
      if (name === 'table' && --this.#tables === 0) this.#flush()
    } else if (name === 'ul' || name === 'ol') this.#lists.pop()
    else if (BLOCK_TAGS.test(name)) this.#flush()
  }

  end(): PageBlock[] {
    this.#flush()
    return this.#blocks
  }

  #append(text: string): void {
    if (this.#block !== null) this.#block.text += text
  }

  /** An element inside one that has no text yet is part of the same block. */
  #begin(type: BlockType | null, mark: string, box: PageBox | null): void {
    const around = this.#block
    if (around !== null && around.type !== 'image' && around.text.trim() === '') {
      const kind = type === null || type === 'text' ? around.type : type
      this.#block = { type: kind, mark: around.mark || mark, box: box ?? around.box, text: '' }
      return
    }
    this.#flush()
    this.#block = { type: type ?? 'text', mark, box, text: '' }
  }

  /** Formulas contain a picture of themselves. */
  #figure(box: PageBox | null): void {
    if (this.#block?.type === 'equation') return
    const around = this.#block?.type === 'image' ? this.#block.box : null
    if (this.#block?.type === 'image') this.#block = null
    this.#flush()
    this.#blocks.push({ type: 'image', content: '', box: box ?? around })
  }

  #markOf(name: string): string {
    if (/^h[1-6]$/.test(name)) return `${'#'.repeat(Number(name[1]))} `
    if (name !== 'li') return ''
    const number = this.#lists.at(-1) ?? null
    if (number !== null) this.#lists[this.#lists.length - 1] = number + 1
    return number === null ? '- ' : `${number}. `
  }

  #flush(): void {
    const block = this.#block
    this.#block = null
    if (block === null) return
    const { type, mark, box } = block
    const text = (type === 'table' ? block.text : decoded(block.text)).trim()
    if (type === 'image') this.#blocks.push({ type, content: '', box }, ...textBlocks(text))
    else if (text !== '') this.#blocks.push({ type, content: `${mark}${around(type, text)}`, box })
  }
}

function typeOf(name: string, kind: string): BlockType | null {
  if (/^h[1-6]$/.test(name)) return 'title'
  if (name === 'li') return 'list'
  if (name === 'pre' || /\bcode\b/i.test(kind)) return 'code'
  if (name === 'header' || name === 'footer') return name
  if (/caption/.test(name)) return 'caption'
  if (/\bformula\b/i.test(kind) && !/chemical/i.test(kind)) return 'equation'
  if (name === 'figure' || /\b(?:image|chart|figure)\b/i.test(kind)) return 'image'
  return name === 'p' ? 'text' : null
}

function around(type: BlockType, text: string): string {
  if (type === 'code') return `\`\`\`\n${text}\n\`\`\``
  if (type === 'equation' && !text.includes('$')) return `$$\n${text}\n$$`
  const lines = text.split('\n').map((line) => line.trim())
  return lines.join('\n')
}

const ENTITIES: Readonly<Record<string, string>> = { lt: '<', gt: '>', quot: '"', apos: "'", nbsp: ' ', amp: '&' }

function decoded(text: string): string {
  return text.replace(/&(?:(lt|gt|quot|apos|nbsp|amp)|#(\d{1,6}));/g, (_, name: string | undefined, code: string) =>
    name === undefined ? String.fromCodePoint(Number(code)) : ENTITIES[name]!,
  )
}
