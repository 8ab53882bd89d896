import type { NalSyntax } from './nal-depacketizer.ts'
import { exponentialAt, type NalKind } from './unit-assembler.ts'

/** RFC 6184, without interleaving. */
export const H264: NalSyntax = {
  headerLength: 1,
  typeOf: (payload) => payload[0]! & 31 || -1,
  aggregation: 24,
  fragment: 28,
  marks: [10, 11],
  fragmentHeader: (payload) => Uint8Array.of((payload[0]! & 0xe0) | (payload[1]! & 31)),
}

const PARTITION_A = 2
const IDR = 5
const SEI = 6
const SPS = 7
const PPS = 8
const DELIMITER = 9

const RECOVERY_POINT = 6

/** Whether an SEI unit has a recovery point message: decoding may begin there (annex D). */
function hasRecoveryPoint(nal: Uint8Array): boolean {
  const read = (at: number): [value: number, end: number] => {
    let end = at
    while (nal[end] === 255) end++
    return [(end - at) * 255 + (nal[end] ?? 0), end + 1]
  }
  for (let at = 1; at + 2 < nal.length; ) {
    const [type, sizeAt] = read(at)
    if (type === RECOVERY_POINT) return true
    const [size, end] = read(sizeAt)
    at = end + size
  }
  return false
}

/** By table 7-1 and section 7.4.1.2.3 of the standard. */
export function kindOfH264(nal: Uint8Array): NalKind | null {
  if (nal.length < 2) return null
  const type = nal[0]! & 31
  // `first_mb_in_slice` is 0. Partitions B and C begin otherwise.
  const isFirst = (type === 1 || type === PARTITION_A || type === IDR) && nal[1]! >= 0x80
  return {
    isSlice: type >= 1 && type <= IDR,
    isKey: type === IDR,
    isEntry: type === SEI && hasRecoveryPoint(nal),
    opensUnit: isFirst || (type >= SEI && type <= DELIMITER) || (type >= 14 && type <= 18),
    set: type === SPS ? `sps ${exponentialAt(nal, 4)}` : type === PPS ? `pps ${exponentialAt(nal, 1)}` : null,
  }
}
