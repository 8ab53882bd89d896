import fc from 'fast-check'
import sharp from 'sharp'
import { describe, expect, it } from 'vitest'
import { type AccessUnit, CameraError } from '../camera-session.ts'
import { JpegDepacketizer } from './jpeg.ts'
import type { RtpPacket } from './rtp.ts'

const WIDTH = 64
const HEIGHT = 48

function encode(quality: number, chromaSubsampling = '4:2:0'): Promise<Buffer> {
  const data = Uint8Array.from({ length: WIDTH * HEIGHT * 3 }, (_, i) => (i * 31) ^ (i >> 5))
  const raw = { width: WIDTH, height: HEIGHT, channels: 3 } as const
  return sharp(data, { raw }).jpeg({ quality, chromaSubsampling, optimiseCoding: false }).toBuffer()
}

interface Sending {
  readonly size: number
  readonly quality: number
  readonly hasTables: boolean
}

/** Payloads as RFC 2435 has them. */
function packetsOf(file: Buffer, { size, quality, hasTables }: Sending): RtpPacket[] {
  const segments = new Map<number, Buffer[]>()
  let at = 2
  for (let marker = 0; marker !== 0xda; ) {
    marker = file[at + 1]!
    const end = at + 2 + file.readUInt16BE(at + 2)
    segments.set(marker, [...(segments.get(marker) ?? []), file.subarray(at + 4, end)])
    at = end
  }
  const scan = file.subarray(at, -2)
  const type = segments.get(0xc0)![0]![7] === 0x22 ? 1 : 0
  const tables = hasTables
    ? [Buffer.from([0, 0, 0, 128]), ...segments.get(0xdb)!.map((table) => table.subarray(1))]
    : []
  const packets: RtpPacket[] = []
  for (let offset = 0; offset < scan.length; offset += size) {
    const header = Buffer.from([0, 0, offset >> 8, offset & 255, type, quality, WIDTH / 8, HEIGHT / 8])
    const payload = Buffer.concat([header, ...(offset === 0 ? tables : []), scan.subarray(offset, offset + size)])
    const isLast = offset + size >= scan.length
    packets.push({ payload, isLast, timestamp: 0, mediaTime: 0, cameraTime: null, afterGap: false })
  }
  return packets
}

function receive(packets: Iterable<RtpPacket>): AccessUnit[] {
  const units: AccessUnit[] = []
  const depacketizer = new JpegDepacketizer((unit) => units.push(unit))
  for (const packet of packets) depacketizer.push(packet)
  return units
}

const pixelsOf = (file: Uint8Array) => sharp(file, { failOn: 'warning' }).raw().toBuffer()

describe('JPEG over RTP', () => {
  it.each([
    [20, '4:2:0', false],
    [50, '4:2:0', false],
    [90, '4:2:0', false],
    [100, '4:2:0', true],
  ] as const)('gives the picture of quality %i, %s, own tables: %s', async (quality, sampling, hasTables) => {
    const file = await encode(quality, sampling)
    const units = receive(packetsOf(file, { size: 500, quality: hasTables ? 255 : quality, hasTables }))
    expect(units).toHaveLength(1)
    expect((await pixelsOf(units[0]!.data)).equals(await pixelsOf(file))).toBe(true)
  })

  it('keeps tables that are sent once', async () => {
    const file = await encode(100)
    const [first, again] = [true, false].map((hasTables) => packetsOf(file, { size: 500, quality: 200, hasTables }))
    // The second has an empty header of tables.
    const { payload } = again![0]!
    again![0] = {
      ...again![0]!,
      payload: Buffer.concat([payload.subarray(0, 8), Buffer.alloc(4), payload.subarray(8)]),
    }
    const units = receive([...again!, ...first!, ...again!])
    expect(units.map(({ afterLoss }) => afterLoss)).toEqual([true, false])
    expect(Buffer.from(units[1]!.data).equals(units[0]!.data)).toBe(true)
  })

  it('leaves out a picture of which a packet is lost', async () => {
    const packets = packetsOf(await encode(90), { size: 300, quality: 90, hasTables: false })
    expect(packets.length).toBeGreaterThan(4)
    for (const [lost] of packets.entries()) {
      const rest = [...packets, ...packets].map((packet, i) => ({ ...packet, afterGap: i === lost + 1 }))
      const units = receive(rest.toSpliced(lost, 1))
      expect(units.map(({ afterLoss }) => afterLoss)).toEqual([true])
    }
    const [first, ...others] = packets
    expect(receive([{ ...first!, afterGap: true }, ...others])[0]!.afterLoss).toBe(true)
  })

  it('refuses what is too large, and what RTP does not describe', async () => {
    const [packet] = packetsOf(await encode(90), { size: 1, quality: 90, hasTables: false })
    const endless = function* () {
      for (let offset = 0; ; offset += 60_000) {
        const payload = Buffer.concat([packet!.payload.slice(0, 8), Buffer.alloc(60_000)])
        payload.writeUIntBE(offset, 1, 3)
        yield { ...packet!, payload, isLast: false }
      }
    }
    expect(() => receive(endless())).toThrow('exceeds 4 MiB')
    const [wide, odd] = [6, 4].map((at) => {
      const payload = Buffer.from(packet!.payload)
      payload[at] = at === 6 ? 0 : 2
      return { ...packet!, payload }
    })
    expect(() => receive([wide!])).toThrow(CameraError)
    expect(() => receive([odd!])).toThrow(CameraError)
  })

  it('takes any bytes', () => {
    const payload = fc.uint8Array({ minLength: 1, maxLength: 40 })
    const begins = payload.map((bytes) => Uint8Array.from([0, 0, 0, 0, ...bytes]))
    const packets = fc.array(
      fc.record({ payload: fc.oneof(payload, begins), isLast: fc.boolean(), afterGap: fc.boolean() }),
    )
    fc.assert(
      fc.property(packets, (all) => {
        try {
          receive(all.map((packet) => ({ ...packet, timestamp: 0, mediaTime: 0, cameraTime: null })))
        } catch (error) {
          expect(error).toBeInstanceOf(CameraError)
        }
      }),
    )
  })
})
