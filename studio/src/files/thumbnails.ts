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
const MOST_KEPT = 300

/** What is asked for, by shelf and file. */
const wanted = new Map<string, () => Promise<number | null>>()
let fetched: number[] = []
let isRunning = false
let shelves = 0

/** Pictures of one size. */
export class PictureShelf {
  /** Addresses of the pictures by the files' ids; '' for what has none. */
  readonly urls = signal<ReadonlyMap<string, string>>(new Map())
  /** The shorter side, in pixels. */
  readonly #side: number
  readonly #number = ++shelves

  constructor(side: number) {
    this.#side = side
  }

  /**
   * Asks for a picture.
   * @param path where its file is.
   * @returns a function that takes the wish back.
   */
  want(id: string, path = `/v1/files/${encodeURIComponent(id)}/content`): () => void {
    if (this.urls.value.has(id)) return () => {}
    const name = `${this.#number} ${id}`
    wanted.set(name, () => this.#fetch(id, path))
    if (!isRunning) void run()
    return () => wanted.delete(name)
  }

  /** Makes the picture of a file whose bytes are here. */
  async make(id: string, blob: Blob): Promise<void> {
    if (blob.type.startsWith('image/')) this.#keep(id, await this.#shrink(blob).catch(() => ''))
  }

  /** @returns milliseconds after which it may be tried again; null when there is nothing more to try. */
  async #fetch(id: string, path: string): Promise<number | null> {
    try {
      this.#keep(id, await this.#shrink(await callBlob(path)))
      return null
    } catch (error) {
      if (error instanceof Failure && error.kind === 'busy') return (error.retryAfter ?? 1) * 1000
      // The row keeps its icon: it is decoration.
      this.#keep(id, '')
      return null
    }
  }

  async #shrink(blob: Blob): Promise<string> {
    const whole = await createImageBitmap(blob)
    const scale = Math.min(1, this.#side / Math.min(whole.width, whole.height))
    const canvas = new OffscreenCanvas(Math.ceil(whole.width * scale), Math.ceil(whole.height * scale))
    const context = canvas.getContext('2d')!
    context.imageSmoothingQuality = 'high'
    context.drawImage(whole, 0, 0, canvas.width, canvas.height)
    whole.close()
    return URL.createObjectURL(await canvas.convertToBlob({ type: 'image/webp', quality: 0.8 }))
  }

  #keep(id: string, url: string): void {
    const kept = new Map(this.urls.value).set(id, url)
    for (const [oldest, old] of kept) {
      if (kept.size <= MOST_KEPT) break
      kept.delete(oldest)
      if (old !== '') URL.revokeObjectURL(old)
    }
    this.urls.value = kept
  }
}

/** For the rows of files: twice their size, for dense screens. */
export const thumbnails = new PictureShelf(96)

/** Asks for the picture of an image. @returns a function that takes the wish back. */
export function wantThumbnail({ id, filename, bytes }: StoredFile): () => void {
  return kindOfName(filename) === 'image' && bytes <= MOST_BYTES ? thumbnails.want(id) : () => {}
}

async function run(): Promise<void> {
  isRunning = true
  try {
    for (let next = first(); next !== undefined; next = first()) {
      const [name, fetchOne] = next
      const now = performance.now()
      fetched = fetched.filter((at) => at > now - MINUTE_MS)
      if (fetched.length >= PER_MINUTE) await pause(fetched[0]! + MINUTE_MS - now)
      if (!wanted.has(name)) continue
      fetched.push(performance.now())
      const waits = await fetchOne()
      if (waits === null) wanted.delete(name)
      else await pause(waits)
    }
  } finally {
    isRunning = false
  }
}

function first() {
  return wanted.entries().next().value
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds))
}
