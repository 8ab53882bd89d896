/** A place on the picture: integers 0..1000, x by width and y by height, whatever the picture's size in pixels. */
export interface GridPoint {
  readonly x: number
  readonly y: number
}

/** What every annotation may say of itself. Absent and empty are the same. */
export interface Attributes {
  readonly mention?: string
  /** Zero-based position of the picture among all media of the request; absent for the last one. */
  readonly assetIdx?: number
}

export type LeafKind = 'point' | 'point_box' | 'polygon'

export interface Leaf extends Attributes {
  readonly kind: LeafKind
  /** One point; top-left and bottom-right of a box; three or more corners of a polygon. */
  readonly points: readonly GridPoint[]
  /** Seconds from the start of the video. */
  readonly t?: number
}

export interface Clip extends Attributes {
  readonly kind: 'clip'
  /** Seconds from the start of the video. A moment has no end. */
  readonly start: number
  readonly end?: number
}

/** One thing followed through time: leaves of one kind on one asset, each with its `t`. */
export interface Track extends Attributes {
  readonly kind: 'track'
  readonly waypoints: readonly Leaf[]
}

/** Annotations under a common mention, which its members take when they have none of their own. */
export interface Collection extends Attributes {
  readonly kind: 'collection'
  readonly t?: number
  readonly members: readonly (Leaf | Clip | Track)[]
}

export type Annotation = Leaf | Clip | Track | Collection

export interface Prose {
  readonly kind: 'prose'
  readonly text: string
}
