const HEADER = 12
/** Limits for steps of `mediaTime`, in milliseconds: after a larger step, the camera's clock was set. */
const LONGEST_BACK = 2_000
const LONGEST_FORTH = 60_000
const SENDER_REPORT = 200
const NTP_TO_UNIX = 2_208_988_800

export interface RtpPacket {
  readonly payload: Uint8Array
  /** The last packet of a picture, if the camera follows the standard. */
  readonly isLast: boolean
  /** Equal for all packets of a picture. */
  readonly timestamp: number
  /** As in `AccessUnit`. */
  readonly mediaTime: number
  readonly cameraTime: Date | null
  /** Packets before this one are missing. */
  readonly afterGap: boolean
}

/** Reads RTP (RFC 3550) in the order in which TCP delivers it. */
export class RtpReceiver {
  readonly #payloadType: number
  readonly #clockRate: number
  #sequence = -1
  #source = -1
  #timestamp = 0
  #mediaTime = 0
  /** A Unix time in milliseconds, and the RTP timestamp at that time, from the last sender report. */
  #report: { readonly unix: number; readonly timestamp: number } | null = null
  #hasGap = false

  constructor({ payloadType, clockRate }: { readonly payloadType: number; readonly clockRate: number }) {
    this.#payloadType = payloadType
    this.#clockRate = clockRate
  }

  /** @returns null for a packet of another stream. */
  read(packet: Buffer): RtpPacket | null {
    if (packet.length < HEADER || packet[0]! >> 6 !== 2 || (packet[1]! & 127) !== this.#payloadType) return null
    let start = HEADER + 4 * (packet[0]! & 15)
    if ((packet[0]! & 16) !== 0) {
      if (packet.length < start + 4) return null
      start += 4 + 4 * packet.readUInt16BE(start + 2)
    }
    const end = packet.length - ((packet[0]! & 32) !== 0 ? packet.at(-1)! : 0)
    const [sequence, timestamp, source] = [packet.readUInt16BE(2), packet.readUInt32BE(4), packet.readUInt32BE(8)]
    const isFirst = this.#source === -1
    const isSame = source === this.#source
    const distance = (sequence - this.#sequence) & 0xffff
    if (isSame && distance === 0) return null
    if (!isFirst && !isSame) this.#report = null
    this.#hasGap ||= !isFirst && !(isSame && distance === 1)
    const passed = isSame ? this.#milliseconds(timestamp, this.#timestamp) : 0
    if (passed >= -LONGEST_BACK && passed <= LONGEST_FORTH) this.#mediaTime += passed
    this.#sequence = sequence
    this.#source = source
    this.#timestamp = timestamp
    if (start >= end) return null
    const afterGap = this.#hasGap
    this.#hasGap = false
    return {
      payload: packet.subarray(start, end),
      isLast: (packet[1]! & 128) !== 0,
      timestamp,
      mediaTime: this.#mediaTime,
      cameraTime: this.#cameraTime(timestamp),
      afterGap,
    }
  }

  /** Reads a packet of RTCP: a sender report relates timestamps to UTC. */
  report(packet: Buffer): void {
    for (let at = 0; at + 20 <= packet.length; at += 4 + 4 * packet.readUInt16BE(at + 2)) {
      if (packet[at]! >> 6 !== 2) return
      if (packet[at + 1] !== SENDER_REPORT) continue
      const seconds = packet.readUInt32BE(at + 8)
      if (seconds === 0) continue
      // The seconds begin again in 2036.
      const unix = seconds + (seconds < 2 ** 31 ? 2 ** 32 : 0) - NTP_TO_UNIX + packet.readUInt32BE(at + 12) / 2 ** 32
      this.#report = { unix: unix * 1000, timestamp: packet.readUInt32BE(at + 16) }
    }
  }

  #cameraTime(timestamp: number): Date | null {
    return this.#report && new Date(this.#report.unix + this.#milliseconds(timestamp, this.#report.timestamp))
  }

  /** Timestamps begin again after 2³². */
  #milliseconds(timestamp: number, since: number): number {
    return (((timestamp - since) | 0) * 1000) / this.#clockRate
  }
}
