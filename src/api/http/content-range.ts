import type { ByteRange } from '../../storage/index.ts'

/**
 * The part that a `Range` header asks for. Null for the whole: no header, one of another unit, several ranges, or none
 * that can be read (RFC 9110, 14.2: such a header is passed over). `unsatisfiable` when the range begins behind the end.
 */
export function requestedRange(header: string | undefined, size: number): ByteRange | 'unsatisfiable' | null {
  const match = /^bytes=\s*(\d*)\s*-\s*(\d*)\s*$/i.exec(header ?? '')
  if (!match || (match[1] === '' && match[2] === '')) return null
  const [, from, to] = match as unknown as [string, string, string]
  if (from === '') {
    const last = Math.min(Number(to), size)
    return last === 0 ? 'unsatisfiable' : { first: size - last, last: size - 1 }
  }
  const first = Number(from)
  const last = to === '' ? size - 1 : Math.min(Number(to), size - 1)
  if (to !== '' && Number(to) < first) return null
  return first >= size ? 'unsatisfiable' : { first, last }
}
