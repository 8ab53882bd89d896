import type { NalSyntax } from './nal-depacketizer.ts'
import { exponentialAt, type NalKind } from './unit-assembler.ts'

/** RFC 7798, without decoding order numbers. */
export const H265: NalSyntax = {
  headerLength: 2,
  typeOf: ([first]) => (first! >> 1) & 63,
  aggregation: 48,
  fragment: 49,
  marks: [36, 37],
  fragmentHeader: ([first, second, fragment]) => Uint8Array.of((first! & 0x81) | ((fragment! & 63) << 1), second!),
}

const FIRST_KEY = 16
const LAST_KEY = 21
const LAST_SLICE = 31
const VPS = 32
const SPS = 33
const PPS = 34
const DELIMITER = 35
const PREFIX_SEI = 39

/** By table 7-1 and section 7.4.2.4.4 of the standard. */
export function kindOfH265(nal: Uint8Array): NalKind | null {
  if (nal.length < 3) return null
  const type = (nal[0]! >> 1) & 63
  const isSlice = type <= LAST_SLICE
  return {
    isSlice,
    isKey: type >= FIRST_KEY && type <= LAST_KEY,
    // A slice says itself whether it is the picture's first.
    opensUnit: isSlice
      ? nal[2]! >= 0x80
      : type <= DELIMITER || type === PREFIX_SEI || (type >= 41 && type <= 44) || type >= 48,
    // Streams of cameras have one SPS; its number comes after fields of any length.
    set: type === VPS ? 'vps' : type === SPS ? 'sps' : type === PPS ? `pps ${exponentialAt(nal, 2)}` : null,
  }
}
