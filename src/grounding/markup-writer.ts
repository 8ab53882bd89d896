import type { Annotation, Attributes, Clip, GridPoint, Leaf, Prose } from './annotation.ts'

/**
 * Writes annotations in the spelling that every known client reads: lower-case tags, double quotes, `mention` first,
 * spaces around pairs but not within them, self-closing clips.
 */
export function formatAnnotation(annotation: Annotation): string {
  switch (annotation.kind) {
    case 'clip':
      return formatClip(annotation)
    case 'track':
      return container('track', attributes(annotation), annotation.waypoints.map(formatLeaf))
    case 'collection':
      return container('collection', attributes(annotation, annotation.t), annotation.members.map(formatAnnotation))
    default:
      return formatLeaf(annotation)
  }
}

/** Writes a piece of a reply. Prose is copied unchanged. */
export function formatPiece(piece: Prose | Annotation): string {
  return piece.kind === 'prose' ? piece.text : formatAnnotation(piece)
}

export function formatLeaf(leaf: Leaf): string {
  return `<${leaf.kind}${attributes(leaf, leaf.t)}> ${leaf.points.map(pair).join(' ')} </${leaf.kind}>`
}

function formatClip(clip: Clip): string {
  const times = clip.end === undefined ? [clip.start] : [clip.start, clip.end]
  const span = times.map((time) => `${Number(time.toFixed(6))} seconds`).join(' ')
  return `<clip${attributes(clip)} t="${span}" />`
}

function container(tag: string, attrs: string, members: readonly string[]): string {
  return `<${tag}${attrs}> ${members.join(' ')} </${tag}>`
}

function attributes({ mention, assetIdx }: Attributes, t?: number): string {
  const parts: string[] = []
  if (mention) parts.push(` mention="${escapeText(mention)}"`)
  if (t !== undefined) parts.push(` t="${t.toFixed(1)} seconds"`)
  if (assetIdx !== undefined) parts.push(` asset_idx="${assetIdx}"`)
  return parts.join('')
}

function pair({ x, y }: GridPoint): string {
  return `(${x},${y})`
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#x27;',
  '\n': '&#xa;',
  '\r': '&#xd;',
}

/** Encodes a text as an attribute value. */
export function escapeText(text: string): string {
  return text.replace(/[&<>"'\r\n]/g, (character) => ENTITIES[character]!)
}
