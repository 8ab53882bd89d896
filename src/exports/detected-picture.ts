/** A picture with its detections. */
export interface DetectedPicture {
  /** Its name in the exported file: a path with slashes. */
  readonly name: string
  /** Width of the upright picture, in pixels. */
  readonly width: number
  readonly height: number
  readonly boxes: readonly DetectedBox[]
  /** Only if points were requested; COCO and YOLO have none. */
  readonly points?: readonly DetectedPoint[]
}

/** In pixels of the upright picture. */
export interface DetectedBox extends Rated {
  readonly left: number
  readonly top: number
  readonly right: number
  readonly bottom: number
}

/** In pixels of the upright picture. */
interface DetectedPoint extends Rated {
  readonly x: number
  readonly y: number
}

interface Rated {
  readonly label: string
  /** The probability that it is right, from 0 to 1; absent if unknown. */
  readonly confidence?: number
}

/** The origin of labels. */
export interface Origin {
  /** Labels that become categories even if nothing was found; empty if every object was requested. */
  readonly asked: readonly string[]
  /** Null if several models were used, or the model is unknown. */
  readonly model: string | null
  /** The version of Lookout; null if unknown. */
  readonly version: string | null
  readonly date: Date
}

/** All labels: first the requested ones in their order, then others in order of appearance. */
export function labelsOf(pictures: readonly DetectedPicture[], asked: readonly string[]): string[] {
  return [...new Set([...asked, ...pictures.flatMap(({ boxes }) => boxes.map(({ label }) => label))])]
}

/** As a sentence for people. */
export function describeOrigin({ asked, model }: Origin): string {
  return `Objects found by ${model ?? 'Lookout'}: ${asked.length === 0 ? 'all' : asked.join(', ')}`
}

export function programOf({ version }: Origin): string {
  return version === null ? 'Lookout' : `Lookout ${version}`
}
