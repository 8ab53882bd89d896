import type { RtpPacket } from './rtp.ts'
import type { UnitAssembler } from './unit-assembler.ts'

/** How a codec's NAL units are put into RTP. */
export interface NalSyntax {
  readonly headerLength: 1 | 2
  typeOf(payload: Uint8Array): number
  /** The type of payloads that hold several units; smaller types, above 0 for H.264, are of a single one. */
  readonly aggregation: number
  /** The type of payloads that hold a fragment of a unit. */
  readonly fragment: number
  /** The types of units without content, which end a sequence or the stream. */
  readonly marks: readonly number[]
  /** The header of the unit of which this is a fragment. */
  fragmentHeader(payload: Uint8Array): Uint8Array
}

/** Unpacks NAL units from RTP, in the order of decoding. */
export class NalDepacketizer {
  readonly #syntax: NalSyntax
  readonly #units: UnitAssembler

  constructor(syntax: NalSyntax, units: UnitAssembler) {
    this.#syntax = syntax
    this.#units = units
  }

  push(packet: RtpPacket): void {
    const { headerLength, aggregation, fragment } = this.#syntax
    const { payload } = packet
    const units = this.#units
    units.open(packet)
    const type = payload.length > headerLength ? this.#syntax.typeOf(payload) : -1
    if (type >= 0 && type < aggregation) units.add(payload)
    else if (type === aggregation) this.#split(payload)
    else if (type === fragment && payload.length > headerLength + 1) this.#join(payload)
    else if (!this.#isMark(payload)) units.lose()
    units.close(packet)
  }

  /** Whether a payload is all header: it ends a sequence or the stream, and nothing else may be empty. */
  #isMark(payload: Uint8Array): boolean {
    const { headerLength, marks, typeOf } = this.#syntax
    return payload.length === headerLength && marks.includes(typeOf(payload))
  }

  #split(payload: Uint8Array): void {
    let at: number = this.#syntax.headerLength
    while (at < payload.length) {
      const next = at + 2 + ((payload[at]! << 8) | (payload[at + 1] ?? 0))
      if (next === at + 2 || next > payload.length) break
      this.#units.add(payload.subarray(at + 2, next))
      at = next
    }
    if (at < payload.length) this.#units.lose()
  }

  #join(payload: Uint8Array): void {
    const units = this.#units
    const flags = payload[this.#syntax.headerLength]!
    if ((flags & 0x80) !== 0) units.begin(this.#syntax.fragmentHeader(payload))
    if (units.isInNal) units.append(payload.subarray(this.#syntax.headerLength + 1))
    else units.lose()
    if (units.isInNal && (flags & 0x40) !== 0) units.end()
  }
}
