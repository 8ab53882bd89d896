export interface Size {
  readonly width: number
  readonly height: number
}

interface Bounds {
  readonly left: number
  readonly top: number
  readonly right: number
  readonly bottom: number
}

/**
 * Finds a place for each label next to its mark, within the picture and, if there is room, without overlapping others.
 */
export class LabelPlaces {
  readonly #size: Size
  readonly #taken: Bounds[] = []

  constructor(size: Size) {
    this.#size = size
  }

  /** @param line width of the mark's line, or of the dot of a point. @returns the top-left corner of the label. */
  take(mark: Bounds, label: Size, line: number): { readonly x: number; readonly y: number } {
    const { left, top, right, bottom } = mark
    const half = line / 2
    const candidates = [
      { x: left - half, y: top - label.height - half },
      { x: left - half, y: bottom + half },
      { x: left + half, y: top + half },
      { x: right - label.width, y: top - label.height - half },
      { x: right - label.width, y: bottom + half },
      { x: left + half, y: bottom - label.height - half },
      { x: right + half, y: top },
      { x: left - label.width - half, y: top },
      { x: left + half, y: top + half + label.height },
      { x: left + half, y: top + half + 2 * label.height },
    ]
    const possible = candidates.map(({ x, y }) => ({ x: within(x, this.#size.width - label.width), y }))
    const inside = possible.filter(({ y }) => y >= 0 && y + label.height <= this.#size.height)
    const free = inside.find(({ x, y }) => !this.#isTaken(x, y, label))
    const { x, y } = free ?? inside[0] ?? possible[0]!
    const place = { x, y: within(y, this.#size.height - label.height) }
    this.#taken.push({ left: x, top: place.y, right: x + label.width, bottom: place.y + label.height })
    return place
  }

  #isTaken(x: number, y: number, { width, height }: Size): boolean {
    return this.#taken.some(
      ({ left, top, right, bottom }) => x < right && x + width > left && y < bottom && y + height > top,
    )
  }
}

function within(value: number, most: number): number {
  return Math.max(0, Math.min(value, most))
}
