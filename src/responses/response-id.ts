import { randomBytes } from 'node:crypto'
import { base62 } from '../accounts/api-key.ts'

/** The part of the id that a response and its items share: 128 random bits. */
const STEM = '[0-9A-Za-z]{22}'
const RESPONSE_ID = new RegExp(`^resp_(${STEM})$`)
const ITEM_ID = new RegExp(`^(?:msg|rs|fc|fco)_(${STEM})[io][0-9A-Za-z]{3}$`)

export function newResponseId(): string {
  return `resp_${base62(BigInt(`0x${randomBytes(16).toString('hex')}`), 22)}`
}

export function isResponseId(text: string): boolean {
  return RESPONSE_ID.test(text)
}

/**
 * The id of an item. It names its response, so that an item can be found by its id alone.
 * @param list whether it is the `index`th of the input or of the output.
 */
export function itemId(response: string, prefix: ItemPrefix, list: 'i' | 'o', index: number): string {
  return `${prefix}_${response.slice('resp_'.length)}${list}${base62(BigInt(index), 3)}`
}

export type ItemPrefix = 'msg' | 'rs' | 'fc' | 'fco'

/** The id of the response that an item belongs to; null for an id that is not ours. */
export function responseOfItem(id: string): string | null {
  const stem = ITEM_ID.exec(id)?.[1]
  return stem === undefined ? null : `resp_${stem}`
}
