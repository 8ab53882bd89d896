/** A mark on a picture, in pixels of the upright picture. */
export interface Mark {
  /** Empty for a mark without a name. */
  readonly label: string
  readonly kind: 'point' | 'box' | 'polygon'
  /** One point; top-left and bottom-right of a box; three or more corners of a polygon. */
  readonly points: readonly { readonly x: number; readonly y: number }[]
}
