/** A point on the image: integers 0..1000, x along the width and y along the height, for any size in pixels. */
export interface GridPoint {
  readonly x: number
  readonly y: number
}

/** The attributes that every annotation may have. An empty value means the same as an absent one. */
export interface Attributes {
  readonly mention?: string
  /** Zero-based index of the asset among all media of the request; absent for the last one. */
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
  /** Seconds from the start of the video. A single moment has no `end`. */
  readonly start: number
  readonly end?: number
}

/** One object tracked through time: leaves of one kind on one asset, each with its `t`. */
export interface Track extends Attributes {
  readonly kind: 'track'
  readonly waypoints: readonly Leaf[]
}

/** Annotations with a shared mention, which members without their own inherit. */
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
