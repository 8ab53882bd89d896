import type { AccessUnit } from './camera-session.ts'
import type { RtpPacket } from './rtp.ts'
import { type NalKind, UnitAssembler } from './unit-assembler.ts'

const STAP_A = 24
const FU_A = 28

/** Takes H.264 out of RTP (RFC 6184, without interleaving). */
export class H264Depacketizer {
  readonly #units: UnitAssembler

  constructor(parameterSets: readonly Uint8Array[], onUnit: (unit: AccessUnit) => void) {
    this.#units = new UnitAssembler('h264', kindOf, parameterSets, onUnit)
  }

  push(packet: RtpPacket): void {
    const units = this.#units
    const payload = packet.payload
    const type = payload[0]! & 31
    units.open(packet)
    if (type > 0 && type < STAP_A) {
      units.begin(payload)
      units.end()
    } else if (type === STAP_A) {
      for (let at = 1; at + 2 < payload.length; ) {
        const size = (payload[at]! << 8) | payload[at + 1]!
        if (size === 0 || at + 2 + size > payload.length) {
          units.lose()
          break
        }
        units.begin(payload.subarray(at + 2, at + 2 + size))
        units.end()
        at += 2 + size
      }
    } else if (type === FU_A && payload.length > 2) {
      const [indicator, fragment] = [payload[0]!, payload[1]!]
      if ((fragment & 0x80) !== 0) units.begin(Uint8Array.of((indicator & 0xe0) | (fragment & 31)))
      if (units.isInNal) {
        units.append(payload.subarray(2))
        if ((fragment & 0x40) !== 0) units.end()
      } else units.lose()
    } else units.lose()
    units.close(packet)
  }
}

/** By table 7-1 and section 7.4.1.2.3 of the standard. */
function kindOf(nal: Buffer): NalKind | null {
  if (nal.length < 2) return null
  const type = nal[0]! & 31
  const isSlice = type >= 1 && type <= 5
  // `first_mb_in_slice` is 0; partitions B and C begin otherwise.
  const isFirstSlice = (type === 1 || type === 2 || type === 5) && nal[1]! >= 0x80
  return {
    isSlice,
    isKey: type === 5,
    opensUnit: isFirstSlice || (type >= 6 && type <= 9) || (type >= 14 && type <= 18),
    set: type === 7 ? `sps ${exponential(nal, 4)}` : type === 8 ? `pps ${exponential(nal, 1)}` : null,
  }
}

/** Of the codes by which parameter sets are numbered, as many bits as matter. */
export function exponential(nal: Buffer, offset: number): number {
  const bits = ((nal[offset] ?? 0) << 16) | ((nal[offset + 1] ?? 0) << 8) | (nal[offset + 2] ?? 0)
  const zeros = Math.min(Math.clz32(bits) - 8, 11)
  return (bits >> (23 - 2 * zeros)) - 1
}
