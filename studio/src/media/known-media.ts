import { MediaRef } from '../request/media-ref.ts'
import type { Attachment } from './attachment.ts'

/*
 * What the page sends as base64 stays recognisable: a body that is kept to be shown holds the file instead, and neither
 * the screen nor the memory is full of base64.
 */

interface Source {
  readonly blob: WeakRef<Blob>
  readonly name: string
  readonly path: string | null
}

const names = new WeakMap<Blob, { readonly name: string; readonly path: string | null }>()
/** By a hash of the base64. */
const known = new Map<string, Source>()
/** Shorter texts are not worth it. */
const LEAST_LENGTH = 400

const sources = new WeakMap<object, Attachment>()

/** Notes that this part of a body carries an attachment. @returns the part */
export function carrying<Part extends object>(attachment: Attachment, part: Part): Part {
  sources.set(part, attachment)
  return part
}

/** The attachment in a field of a body, such as `messages[0].content[3].image_url.url`; null if there is none. */
export function attachmentAt(body: unknown, field: string): Attachment | null {
  let value = body
  for (const name of ['', ...field.split(/[.[\]]+/)]) {
    if (value === null || typeof value !== 'object') break
    const found = sources.get(value)
    if (found !== undefined) return found
    value = name === '' ? value : (value as Readonly<Record<string, unknown>>)[name]
  }
  return null
}

/** Says what a blob is called. @param path where the server has it too */
export function nameMedia(blob: Blob, name: string, path: string | null): void {
  names.set(blob, { name, path })
}

/** Notes that this data URL is the blob's. @returns the data URL */
export function rememberMedia(blob: Blob, dataUrl: string): string {
  const { name, path } = names.get(blob) ?? { name: 'media', path: null }
  known.set(hashOf(base64Of(dataUrl)), { blob: new WeakRef(blob), name, path })
  return dataUrl
}

/** A copy of a body as it is sent, without undefined members, that holds `MediaRef` in place of known media. */
export function withMediaRefs(value: unknown): unknown {
  if (typeof value === 'string') return refOf(value) ?? value
  if (Array.isArray(value)) return value.map(withMediaRefs)
  if (value === null || typeof value !== 'object') return value
  const members = Object.entries(value).filter(([, member]) => member !== undefined)
  return Object.fromEntries(members.map(([name, member]) => [name, withMediaRefs(member)]))
}

function refOf(text: string): MediaRef | null {
  if (text.length < LEAST_LENGTH) return null
  const base64 = base64Of(text)
  const source = known.get(hashOf(base64))
  const blob = source?.blob.deref()
  if (source === undefined || blob === undefined) return null
  return new MediaRef(blob, source.name, source.path, base64.length === text.length)
}

function base64Of(text: string): string {
  return text.startsWith('data:') ? text.slice(text.indexOf(',') + 1) : text
}

/** 64 bits and the length: two hashes of FNV's kind over all characters; about 2 ms for a megabyte. */
function hashOf(text: string): string {
  let [a, b] = [0x811c9dc5, 0x9747b28c]
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index)
    a = Math.imul(a ^ code, 0x01000193)
    b = Math.imul(b ^ code, 0x85ebca6b)
  }
  return `${text.length}:${a >>> 0}:${b >>> 0}`
}
