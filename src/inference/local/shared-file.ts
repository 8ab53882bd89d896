import { closeSync, ftruncate, openSync, readv, unlinkSync, writev } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { libc } from '../../lib/libc.ts'
import { type Envelope, pack, unpack } from './envelope.ts'

/** A value whose views are in a shared file, one after another. */
export interface StoredValue {
  readonly body: Uint8Array
  readonly position: number
  readonly views: readonly { readonly holdsFloats: boolean; readonly byteLength: number }[]
}

export interface SharedFileOptions {
  /** Whether it may be in memory. Tests disable this to match systems without such files. */
  readonly inMemory?: boolean
}

const MFD_CLOEXEC = 1
/** Views per system call, which takes at most 1,024. */
const VIEWS_AT_ONCE = 64

/**
 * A file that two processes share, so that pixels and samples need not pass through the channel between them, which copies
 * them several times in blocks of some ten KiB. A child inherits its descriptor. It has no name, so nothing is left when both
 * processes have ended. It is in memory where the system can do that, and otherwise in the folder for temporary files. Other
 * threads read and write it with system calls, so missing data is an error, not a fault.
 */
export class SharedFile {
  readonly descriptor: number
  #uses = 0
  #isClosed = false

  constructor(descriptor: number) {
    this.descriptor = descriptor
  }

  /** @throws Error when no descriptor is left, or there is no room for files. */
  static create({ inMemory = true }: SharedFileOptions = {}): SharedFile {
    return new SharedFile((inMemory ? openInMemory() : null) ?? openTemporary())
  }

  /** @throws Error when there is no room. */
  put(value: unknown, position = 0): Promise<StoredValue> {
    return this.#use(async () => {
      const { body, views } = pack(value)
      await this.#transfer(writev, views, position)
      const stored = views.map((view) => ({
        holdsFloats: view instanceof Float32Array,
        byteLength: view.byteLength,
      }))
      return { body, position, views: stored }
    })
  }

  /** @throws Error for a value that is not there. */
  take<T>({ body, position, views }: StoredValue): Promise<T> {
    return this.#use(async () => {
      const buffers = views.map(({ byteLength }) => Buffer.allocUnsafeSlow(byteLength))
      await this.#transfer(readv, buffers, position)
      const read = views.map(({ holdsFloats }, index) => {
        const { buffer } = buffers[index]!
        return holdsFloats ? new Float32Array(buffer) : new Uint8Array(buffer)
      })
      return unpack<T>({ body, views: read })
    })
  }

  /** Frees the memory. All values must have been taken. */
  async clear(): Promise<void> {
    // If it cannot be shortened, it is overwritten.
    await this.#use(() => promisify(ftruncate)(this.descriptor, 0)).catch(() => {})
  }

  /** Closes it once nothing is being read or written: the descriptor's number may then be another file's. */
  close(): void {
    if (!this.#isClosed && this.#uses === 0) closeSync(this.descriptor)
    this.#isClosed = true
  }

  async #use<T>(work: () => Promise<T>): Promise<T> {
    if (this.#isClosed) throw new Error('The file is closed.')
    this.#uses++
    try {
      return await work()
    } finally {
      if (--this.#uses === 0 && this.#isClosed) closeSync(this.descriptor)
    }
  }

  async #transfer(call: typeof readv | typeof writev, views: Envelope['views'], start: number): Promise<void> {
    let position = start
    for (let first = 0; first < views.length; first += VIEWS_AT_ONCE) {
      const some = views.slice(first, first + VIEWS_AT_ONCE)
      const expected = some.reduce((sum, { byteLength }) => sum + byteLength, 0)
      const { promise, resolve, reject } = Promise.withResolvers<number>()
      call(this.descriptor, some, position, (error, count) => (error ? reject(error) : resolve(count)))
      if ((await promise) !== expected) throw new Error('The file is shorter than expected.')
      position += expected
    }
  }
}

/** @returns null if the system has no files in memory. */
function openInMemory(): number | null {
  if (process.platform !== 'linux') return null
  try {
    const create = libc().library.func('memfd_create', 'int', ['str', 'uint'])
    const descriptor = create('lookout', MFD_CLOEXEC) as number
    return descriptor < 0 ? null : descriptor
  } catch {
    return null
  }
}

function openTemporary(): number {
  const path = join(tmpdir(), `lookout-${crypto.randomUUID()}`)
  const descriptor = openSync(path, 'wx+', 0o600)
  unlinkSync(path)
  return descriptor
}
