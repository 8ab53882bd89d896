import { signal } from '@preact/signals'

/** Parts of the width and the height of the upright image: 0..1 from the top-left corner. */
export interface Point {
  readonly x: number
  readonly y: number
}

/** Something shown on an image or on a moment of a video. */
export interface Mark {
  /** Unique on the page. */
  readonly id: string
  /** The id of its attachment. */
  readonly media: string
  readonly label: string
  /** Shown behind the label. */
  readonly note?: string
  readonly kind: 'point' | 'box' | 'polygon'
  /** One point; top-left and bottom-right of a box; three or more corners of a polygon. */
  readonly points: readonly Point[]
  /** Seconds from the start of a video. */
  readonly time?: number
  /** From when to when it is seen; by default around its time, as near as others of its label are. */
  readonly shown?: readonly [from: number, to: number]
  /** Drawn apart from what a model found. */
  readonly role?: Role
}

/**
 * An example of what to look for, or of what not; the outcome of a comparison with a file of known boxes; or less likely to be
 * right than what the user wants to see.
 */
export type Role = 'positive' | 'negative' | 'matched' | 'missed' | 'extra' | 'unsure'

export function captionOf({ label, note }: Mark): string {
  return note === undefined ? label : `${label} ${note}`
}

/** A span of a video or a sound, in seconds; a moment has no end. */
export interface Clip {
  readonly id: string
  readonly media: string
  readonly label: string
  readonly start: number
  readonly end?: number
}

/** The mark that the pointer or the focus is on, in the text or on the picture; both light up. */
export const litMark = signal<string | null>(null)
/** The mark that was clicked last; the stage shows it whole. */
export const chosenMark = signal<string | null>(null)

/** Handlers of an element that stands for a mark: the mark is lit while the pointer or the focus is on the element. */
export function lighting(id: string | null) {
  const light = () => {
    litMark.value = id
  }
  const darken = () => {
    litMark.value = null
  }
  return { onPointerEnter: light, onPointerLeave: darken, onFocus: light, onBlur: darken }
}
