import { ConfigError } from '../../config/config.ts'
import { readNumber } from '../asking/numbers.ts'
import { readChoice } from '../options.ts'

export const LOOKS = ['none', 'coarse', 'all'] as const

export type TilingValues = { readonly [Key in 'tiles' | 'smallest' | 'looks']?: string | undefined }

/** @returns the request's fields about tiles. @throws ConfigError */
export function readTiling(values: TilingValues): object {
  const { tiles } = values
  const smallest = readNumber(values.smallest, '--smallest', { min: 1, max: 1_000_000, whole: true })
  const looks = readChoice(values.looks, '--looks', LOOKS)
  if (smallest !== undefined && tiles !== 'auto') throw new ConfigError('--smallest: only together with --tiles auto')
  if (looks !== undefined && tiles === undefined) throw new ConfigError('--looks: only together with --tiles')
  if (tiles === undefined) return {}
  const grid = /^(\d{1,3})x(\d{1,3})$/.exec(tiles)?.slice(1).map(Number)
  if (tiles !== 'auto' && grid === undefined) {
    throw new ConfigError(`--tiles: expected auto, or columns and rows such as 8x6, not '${tiles}'`)
  }
  const fields = { ...(smallest === undefined ? {} : { smallest }), ...(looks === undefined ? {} : { looks }) }
  return { tiles: grid ?? 'auto', ...fields }
}
