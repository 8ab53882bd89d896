import { ConfigError } from '../../config/config.ts'

/** The numeric value of an option; undefined if it is not given. @throws ConfigError */
export function readNumber(
  text: string | undefined,
  option: string,
  { min, max, whole = false }: { readonly min: number; readonly max: number; readonly whole?: boolean },
): number | undefined {
  if (text === undefined) return undefined
  const value = /^\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN
  if (value >= min && value <= max && (!whole || Number.isInteger(value))) return value
  throw new ConfigError(`${option}: expected a ${whole ? 'whole ' : ''}number from ${min} to ${max}, not '${text}'`)
}

/** The page of a picture or document, from 1; or pages of a document, as `1-3`; null if none is given. */
export type PageWish = number | string | null

/** @throws ConfigError */
export function readPage(text: string | undefined): PageWish {
  if (text !== undefined && /^\d+ *[-,][\d ,-]*$/.test(text)) return text
  return readNumber(text, '--page', { min: 1, max: 1_000_000, whole: true }) ?? null
}
