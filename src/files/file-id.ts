import { randomBytes } from 'node:crypto'
import { base62 } from '../accounts/api-key.ts'

const FILE_ID = /^file-[0-9A-Za-z]{22}$/
const BLOB_NAME = /^[a-z0-9-]+\/file-[0-9A-Za-z]{22}$/
/** Random bits, below the 48 bits of the time in milliseconds. */
const RANDOM_BITS = 80n
/** Random bytes in the step between two ids of the same millisecond; few, so that ids do not run ahead of time. */
const STEP_BYTES = 5

export function isFileId(text: string): boolean {
  return FILE_ID.test(text)
}

/** The name of a file's bytes in the blob store. */
export function blobName(organisation: string, id: string): string {
  return `${organisation}/${id}`
}

/** Whether a name is one that `blobName` makes: other blobs in the store are not Lookout's. */
export function isBlobName(name: string): boolean {
  return BLOB_NAME.test(name)
}

/**
 * Creates ids that sort by creation time: a prefix and 128 bits in 22 letters and digits, like a UUID of version 7. A
 * list can therefore continue after an id even if its object has been deleted.
 */
export class SortedIds {
  readonly #prefix: string
  #last = 0n

  constructor(prefix: string) {
    this.#prefix = prefix
  }

  next(now = Date.now()): { readonly id: string; readonly createdAt: Date } {
    const random = (BigInt(now) << RANDOM_BITS) | BigInt(`0x${randomBytes(10).toString('hex')}`)
    const following = this.#last + 1n + BigInt(`0x${randomBytes(STEP_BYTES).toString('hex')}`)
    this.#last = random >> RANDOM_BITS > this.#last >> RANDOM_BITS ? random : following
    // Not the time in the id: if the clock was set back, ids stay ahead of it for as long as this process runs.
    return { id: `${this.#prefix}${base62(this.#last, 22)}`, createdAt: new Date(now) }
  }
}
