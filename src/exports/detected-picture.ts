/** One picture with what was found on it. */
export interface DetectedPicture {
  /** As the exported file is to name it: a path with slashes. */
  readonly name: string
  /** Width of the upright picture, in pixels. */
  readonly width: number
  readonly height: number
  readonly boxes: readonly DetectedBox[]
  /** Only where points were asked for; COCO and YOLO have none. */
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
  /** How likely it is to be right, from 0 to 1; absent where that is not known. */
  readonly confidence?: number
}

/** Where labels come from. */
export interface Origin {
  /** Labels that become categories even where nothing was found; none: every object was asked for. */
  readonly asked: readonly string[]
  /** Null where several models were asked, or it is not known. */
  readonly model: string | null
  /** The version of Lookout; null where it is not known. */
  readonly version: string | null
  readonly date: Date
}

/** All labels: those that were asked for first, in their order, and behind them others in the order of appearance. */
export function labelsOf(pictures: readonly DetectedPicture[], asked: readonly string[]): string[] {
  return [...new Set([...asked, ...pictures.flatMap(({ boxes }) => boxes.map(({ label }) => label))])]
}

/** In a sentence, for people. */
export function describeOrigin({ asked, model }: Origin): string {
  return `Objects found by ${model ?? 'Lookout'}: ${asked.length === 0 ? 'all' : asked.join(', ')}`
}

export function programOf({ version }: Origin): string {
  return version === null ? 'Lookout' : `Lookout ${version}`
}
