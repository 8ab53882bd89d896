import type { PlaceEvidence } from '../../grounding/evidence.ts'

/** What speaks for a box, before it is known how much that says. */
export interface BoxEvidence extends PlaceEvidence {
  /** Greatest IoU with another box of the list, 0..1. */
  readonly overlap: number
  /** The square root of the area, as a share of the image's, 0..1. */
  readonly size: number
  /** Place in the list, from 1. Beyond `listLength`, the model would not have written the box. */
  readonly rank: number
  readonly listLength: number
  /** How likely the model is to read the label in the box; null where it was not asked. */
  readonly read: number | null
}

export interface ListEvidence {
  /** How likely the model is to go on at the end, 0..1. */
  readonly more: number
  readonly listLength: number
}

/** How likely a box is to be right. Without a fit: that it begins, and lies near. */
export function boxConfidence(evidence: BoxEvidence, _fit: null): number {
  return evidence.begin * evidence.near
}

/** How likely a list is to have everything. Without a fit: that it ends. */
export function listComplete({ more }: ListEvidence, _fit: null): number {
  return 1 - more
}
