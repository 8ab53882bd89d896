import { randomBytes } from 'node:crypto'
import { base62 } from '../accounts/index.ts'

const FILE_ID = /^file-[0-9A-Za-z]{22}$/
/** Bits that are random, below the 48 of the time in milliseconds. */
const RANDOM_BITS = 80n
/** Greatest distance of two ids of the same millisecond; small, so that the time is not run ahead of. */
const STEP_BYTES = 5

export function isFileId(text: string): boolean {
  return FILE_ID.test(text)
}

/**
 * Makes ids that sort by the time they were made at: `file-` and 128 bits in 22 letters and digits, like a UUID of version
 * 7. So a page of a list goes on behind an id even when the file of that id is gone.
 */
export class FileIds {
  #last = 0n

  next(now = Date.now()): { readonly id: string; readonly createdAt: Date } {
    const made = (BigInt(now) << RANDOM_BITS) | BigInt(`0x${randomBytes(10).toString('hex')}`)
    const following = this.#last + 1n + BigInt(`0x${randomBytes(STEP_BYTES).toString('hex')}`)
    this.#last = made >> RANDOM_BITS > this.#last >> RANDOM_BITS ? made : following
    return { id: `file-${base62(this.#last, 22)}`, createdAt: new Date(Number(this.#last >> RANDOM_BITS)) }
  }
}
