import { type AccessUnit, CameraError, MAX_UNIT } from '../camera-session.ts'
import type { RtpPacket } from './rtp.ts'

export const START_CODE = Buffer.from([0, 0, 0, 1])
const MAX_SETS = 64
const MAX_SET = 4096

/** Properties of a NAL unit, for any codec. */
export interface NalKind {
  /** It holds a part of the picture. */
  readonly isSlice: boolean
  readonly isKey: boolean
  /** It marks its access unit as one that decoding may begin with. */
  readonly isEntry?: boolean
  /** It can only be the first of its kind in an access unit. */
  readonly opensUnit: boolean
  /** For a parameter set: which one it replaces. */
  readonly set: string | null
}

/**
 * Reads an Exp-Golomb code (ue(v)), such as the number of a parameter set, of at most as many bits as that may take.
 */
export function exponentialAt(nal: Uint8Array, offset: number): number {
  const bits = ((nal[offset] ?? 0) << 16) | ((nal[offset + 1] ?? 0) << 8) | (nal[offset + 2] ?? 0)
  const zeros = Math.min(Math.clz32(bits) - 8, 11)
  return (bits >> (23 - 2 * zeros)) - 1
}

/**
 * Puts NAL units together to access units in Annex B. A unit ends with its last packet or its timestamp, but cameras get
 * both wrong, so it also ends where a NAL unit begins another picture. After a gap, all up to the next such NAL unit is dropped.
 */
export class UnitAssembler {
  readonly #codec: AccessUnit['codec']
  readonly #kindOf: (nal: Uint8Array) => NalKind | null
  readonly #onUnit: (unit: AccessUnit) => void
  readonly #sets = new Map<string, Buffer>()
  #bytes = Buffer.allocUnsafeSlow(65_536)
  /** Length of the complete NAL units. */
  #length = 0
  /** Length including the part of the next NAL unit that has arrived. */
  #end = 0
  #packet: RtpPacket | null = null
  #time: Pick<AccessUnit, 'mediaTime' | 'cameraTime'> = { mediaTime: 0, cameraTime: null }
  #hasSlice = false
  /** The sets in the unit. */
  readonly #own = new Set<string>()
  #isKey = false
  #isEntry = false
  #isSkipping = false
  #hasLost = false
  /** The camera marks each slice as the last. */
  #ignoresLast = false
  /** Timestamp of the unit that ended with its last packet. */
  #lastTimestamp: number | null = null

  constructor(
    codec: AccessUnit['codec'],
    kindOf: (nal: Uint8Array) => NalKind | null,
    sets: readonly Uint8Array[],
    onUnit: (unit: AccessUnit) => void,
  ) {
    this.#codec = codec
    this.#kindOf = kindOf
    this.#onUnit = onUnit
    for (const set of sets) this.#keep(Buffer.from(set))
  }

  /** Before the NAL units of a packet. */
  open(packet: RtpPacket): void {
    if (packet.afterGap) this.lose()
    else if (this.#packet !== null && packet.timestamp !== this.#packet.timestamp) {
      if (this.isInNal) this.lose()
      this.#finish()
    }
    this.#packet = packet
  }

  /** After the NAL units of a packet. */
  close(packet: RtpPacket): void {
    if (!packet.isLast || this.#ignoresLast || this.isInNal) return
    this.#lastTimestamp = packet.timestamp
    this.#finish()
  }

  /** Drops the current unit, which is damaged. */
  lose(): void {
    this.#clear()
    this.#isSkipping = true
    this.#hasLost = true
  }

  get isInNal(): boolean {
    return this.#end > this.#length
  }

  get #nal(): Buffer {
    return this.#bytes.subarray(this.#length + START_CODE.length, this.#end)
  }

  /** Begins a NAL unit with its header, or more of it. */
  begin(header: Uint8Array): void {
    if (this.isInNal) this.lose()
    this.append(START_CODE)
    this.append(header)
  }

  append(bytes: Uint8Array): void {
    const end = this.#end + bytes.length
    if (end > MAX_UNIT) throw new CameraError('protocol', 'A frame of the camera exceeds 4 MiB')
    if (end > this.#bytes.length) {
      const larger = Buffer.allocUnsafeSlow(Math.min(MAX_UNIT, end * 2))
      this.#bytes.copy(larger, 0, 0, this.#end)
      this.#bytes = larger
    }
    this.#bytes.set(bytes, this.#end)
    this.#end = end
  }

  /** Adds a whole NAL unit. */
  add(nal: Uint8Array): void {
    this.begin(nal)
    this.end()
  }

  /** Ends the NAL unit that was begun. */
  end(): void {
    const kind = this.#kindOf(this.#nal)
    if (kind === null) {
      this.#end = this.#length
      return
    }
    if (kind.opensUnit && this.#hasSlice) {
      // The NAL unit moves to the front.
      const [from, to] = [this.#length, this.#end]
      this.#finish()
      this.#bytes.copyWithin(0, from, to)
      this.#end = to - from
    }
    if (kind.set !== null) this.#keep(this.#nal, kind.set)
    if (kind.opensUnit) this.#isSkipping = false
    else if (!this.#hasSlice) {
      // The rest of a picture whose beginning is lost.
      if (kind.isSlice && !this.#isSkipping) {
        this.#ignoresLast ||= this.#packet?.timestamp === this.#lastTimestamp
        this.lose()
      }
      this.#end = this.#length
      return
    }
    if (kind.isSlice && !this.#hasSlice) {
      const { mediaTime, cameraTime } = this.#packet!
      this.#time = { mediaTime, cameraTime }
    }
    this.#length = this.#end
    this.#hasSlice ||= kind.isSlice
    if (kind.set !== null) this.#own.add(kind.set)
    this.#isKey ||= kind.isKey
    this.#isEntry ||= kind.isEntry === true
  }

  /** Hands out the unit, if it has a picture; parameter sets wait for theirs. */
  #finish(): void {
    if (!this.#hasSlice) return
    const unit = this.#bytes.subarray(0, this.#length)
    const [isKey, isEntry] = [this.#isKey, this.#isEntry]
    const missing = isKey || isEntry ? [...this.#sets].filter(([key]) => !this.#own.has(key)) : []
    const sets = missing.flatMap(([, set]) => [START_CODE, set])
    const { mediaTime, cameraTime } = this.#time
    const afterLoss = this.#hasLost
    this.#clear()
    this.#hasLost = false
    const data = Buffer.concat([...sets, unit])
    this.#onUnit({ codec: this.#codec, data, isKey, isEntry, mediaTime, cameraTime, afterLoss })
  }

  #clear(): void {
    this.#length = 0
    this.#end = 0
    this.#hasSlice = false
    this.#own.clear()
    this.#isKey = false
    this.#isEntry = false
  }

  #keep(nal: Buffer, key = this.#kindOf(nal)?.set ?? null): void {
    if (key === null || nal.length > MAX_SET || (this.#sets.size >= MAX_SETS && !this.#sets.has(key))) return
    this.#sets.set(key, Buffer.from(nal))
  }
}
