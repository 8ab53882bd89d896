import { signal } from '@preact/signals'
import { callBlob } from '../server/call.ts'
import { Failure } from '../server/failure.ts'
import type { StoredFile } from './file-body.ts'
import { kindOfName } from './file-kind.ts'

/*
 * Small pictures of stored images. The server has none, so that the whole file is fetched, which counts against the limit
 * of 30 contents a minute that the organisation's programs share. Therefore only rows that are seen are asked for, one
 * after the other, and at most half of the limit is used.
 */

const PER_MINUTE = 15
const MINUTE_MS = 60_000
const MOST_BYTES = 12 * 2 ** 20
/** In pixels of the picture: twice those of the row, for dense screens. */
const SIDE = 96
const MOST_KEPT = 300

/** Addresses of the pictures by the files' ids; '' for what has none. */
export const thumbnails = signal<ReadonlyMap<string, string>>(new Map())

const wanted = new Map<string, StoredFile>()
let fetched: number[] = []
let isRunning = false

/** Asks for a picture. @returns a function that takes the wish back. */
export function wantThumbnail(file: StoredFile): () => void {
  if (!thumbnails.value.has(file.id) && kindOfName(file.filename) === 'image' && file.bytes <= MOST_BYTES) {
    wanted.set(file.id, file)
    if (!isRunning) void run()
  }
  return () => wanted.delete(file.id)
}

/** Makes the picture of a file that was just uploaded from here. */
export async function makeThumbnail(id: string, blob: Blob): Promise<void> {
  if (blob.type.startsWith('image/')) keep(id, await shrink(blob).catch(() => ''))
}

async function run(): Promise<void> {
  isRunning = true
  try {
    for (let file = next(); file !== undefined; file = next()) {
      const now = performance.now()
      fetched = fetched.filter((at) => at > now - MINUTE_MS)
      if (fetched.length >= PER_MINUTE) await pause(fetched[0]! + MINUTE_MS - now)
      if (!wanted.has(file.id)) continue
      fetched.push(performance.now())
      const waits = await fetchThumbnail(file)
      if (waits === null) wanted.delete(file.id)
      else await pause(waits)
    }
  } finally {
    isRunning = false
  }
}

function next(): StoredFile | undefined {
  return wanted.values().next().value
}

/** @returns milliseconds after which it may be tried again; null when there is nothing more to try. */
async function fetchThumbnail(file: StoredFile): Promise<number | null> {
  try {
    keep(file.id, await shrink(await callBlob(`/v1/files/${encodeURIComponent(file.id)}/content`)))
    return null
  } catch (error) {
    if (error instanceof Failure && error.kind === 'busy') return (error.retryAfter ?? 1) * 1000
    // The row keeps its icon: it is decoration.
    keep(file.id, '')
    return null
  }
}

async function shrink(blob: Blob): Promise<string> {
  const whole = await createImageBitmap(blob)
  const scale = Math.min(1, SIDE / Math.min(whole.width, whole.height))
  const canvas = new OffscreenCanvas(Math.ceil(whole.width * scale), Math.ceil(whole.height * scale))
  const context = canvas.getContext('2d')!
  context.imageSmoothingQuality = 'high'
  context.drawImage(whole, 0, 0, canvas.width, canvas.height)
  whole.close()
  return URL.createObjectURL(await canvas.convertToBlob({ type: 'image/webp', quality: 0.8 }))
}

function keep(id: string, url: string): void {
  const kept = new Map(thumbnails.value).set(id, url)
  for (const [oldest, old] of kept) {
    if (kept.size <= MOST_KEPT) break
    kept.delete(oldest)
    if (old !== '') URL.revokeObjectURL(old)
  }
  thumbnails.value = kept
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds))
}
