import { readFile, rename, rm, writeFile } from 'node:fs/promises'
import { z } from 'zod'
import { parseJsonOr } from '../../lib/parse-json.ts'
import { type ByteRange, joined, totalOf } from './byte-ranges.ts'

const schema = z.object({
  /** What is fetched: the hash of a file, or an address. */
  key: z.string(),
  size: z.int().nonnegative(),
  /** What `If-Range` takes. */
  etag: z.string().nullable(),
  /** What is safely in the file. */
  done: z.array(z.tuple([z.int().nonnegative(), z.int().nonnegative()])),
})

/** What there is of a file that is not complete yet, in a file beside it. */
export class Journal {
  readonly #path: string
  readonly #key: string
  readonly #size: number
  #etag: string | null
  #done: readonly ByteRange[]
  #writing: Promise<void> = Promise.resolve()

  private constructor(path: string, key: string, size: number, etag: string | null, done: readonly ByteRange[]) {
    this.#path = path
    this.#key = key
    this.#size = size
    this.#etag = etag
    this.#done = joined(done)
  }

  static pathFor(incomplete: string): string {
    return `${incomplete}.json`
  }

  /** The journal of an earlier attempt at the same file, or a new one. */
  static async open(incomplete: string, key: string, size: number): Promise<Journal> {
    const path = Journal.pathFor(incomplete)
    const parsed = schema.safeParse(parseJsonOr(await readFile(path, 'utf8').catch(() => ''), null))
    const old = parsed.success && parsed.data.key === key && parsed.data.size === size ? parsed.data : null
    const done = (old?.done ?? []).filter(([from, to]) => from < to && to <= size)
    return new Journal(path, key, size, old?.etag ?? null, done)
  }

  get etag(): string | null {
    return this.#etag
  }

  get done(): readonly ByteRange[] {
    return this.#done
  }

  get doneBytes(): number {
    return totalOf(this.#done)
  }

  /** Notes a range whose bytes are on the disk. */
  async add(range: ByteRange, etag: string | null): Promise<void> {
    this.#done = joined([...this.#done, range])
    this.#etag = etag
    this.#writing = this.#writing.catch(() => {}).then(() => this.#write())
    await this.#writing
  }

  async remove(): Promise<void> {
    await rm(this.#path, { force: true })
  }

  async #write(): Promise<void> {
    const draft = `${this.#path}.draft`
    await writeFile(draft, JSON.stringify({ key: this.#key, size: this.#size, etag: this.#etag, done: this.#done }))
    await rename(draft, this.#path)
  }
}
