/** The kinds of blocks in Mistral's API. */
export const BLOCK_TYPES = [
  'text',
  'title',
  'list',
  'table',
  'image',
  'equation',
  'caption',
  'code',
  'references',
  'aside_text',
  'header',
  'footer',
  'signature',
] as const
export type BlockType = (typeof BLOCK_TYPES)[number]

/** A part of a page, as fractions of its width and height from the top left, each from 0 to 1. */
export interface PageBox {
  readonly left: number
  readonly top: number
  readonly right: number
  readonly bottom: number
}

/** In any unit. */
interface Extent {
  readonly width: number
  readonly height: number
}

export interface PageBlock {
  readonly type: BlockType
  /** Markdown, in which tables may be HTML or LaTeX; for an image, its alternative text, if any. */
  readonly content: string
  /** Null if the model does not say where the block is. */
  readonly box: PageBox | null
}

/**
 * Parses what a model has written about a page: blocks in reading order. It accepts any text, even truncated:
 * anything in an unknown form is text.
 * @param picture the page as the model sees it, in pixels.
 */
export type PageNotation = (written: string, picture: Extent) => readonly PageBlock[]

/** A block of text without a place; none for an empty text. */
export function textBlocks(text: string): PageBlock[] {
  const content = text.trim()
  return content === '' ? [] : [{ type: 'text', content, box: null }]
}

/**
 * The box of the first four numbers: left, top, right, bottom.
 * @param most the maximum in each direction.
 * @returns null if there are fewer than four.
 */
export function boxOf(numbers: readonly number[], most: Extent): PageBox | null {
  const [x1 = NaN, y1 = NaN, x2 = NaN, y2 = NaN] = numbers
  const share = (value: number, side: number) => Math.min(Math.max(value / side, 0), 1)
  const [left, right] = [share(x1, most.width), share(x2, most.width)].sort((a, b) => a - b) as [number, number]
  const [top, bottom] = [share(y1, most.height), share(y2, most.height)].sort((a, b) => a - b) as [number, number]
  const box = { left, top, right, bottom }
  return Object.values(box).every(Number.isFinite) ? box : null
}

/** The maximum in each direction, if it is the same. */
export function upTo(most: number): Extent {
  return { width: most, height: most }
}

/** The bounding box of boxes. */
export function around(boxes: readonly PageBox[]): PageBox | null {
  if (boxes.length === 0) return null
  return {
    left: Math.min(...boxes.map(({ left }) => left)),
    top: Math.min(...boxes.map(({ top }) => top)),
    right: Math.max(...boxes.map(({ right }) => right)),
    bottom: Math.max(...boxes.map(({ bottom }) => bottom)),
  }
}
