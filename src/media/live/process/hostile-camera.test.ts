import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { joinNals, packetize, splitNals } from '../../../../test/support/camera-video.ts'
import {
  describe as describeVideo,
  interleaved,
  rtpPacket,
  senderReport,
} from '../../../../test/support/rtsp-camera.ts'
import { loadFFmpeg } from '../../decoding/ffmpeg.ts'
import { CAMERA_TYPES } from '../camera-source.ts'
import { type AccessUnit, CameraError, type CameraSession, MAX_UNIT } from './camera-session.ts'
import { Login } from './protocols/digest.ts'
import { type CameraAddress, openSession } from './protocols/open-session.ts'

type Codec = 'h264' | 'h265'

const ffmpeg = loadFFmpeg()

/** A picture of slices: the first says that it is the first. Bytes of 0xff cannot look like a start code. */
function pictureOf(codec: Codec, isKey: boolean, sizes: readonly number[]): Buffer[] {
  const header = codec === 'h264' ? [isKey ? 0x65 : 0x41] : [(isKey ? 19 : 1) << 1, 1]
  return sizes.map((size, i) =>
    Buffer.concat([Buffer.from([...header, i === 0 ? 0x80 : 0x40]), Buffer.alloc(size, 0xff)]),
  )
}

const SETS: Record<Codec, Buffer[]> = {
  h264: [Buffer.from([0x67, 66, 0, 30, 0x80]), Buffer.from([0x68, 0xc0])],
  h265: [32, 33, 34].map((type) => Buffer.from([type << 1, 1, 0xc0, 0x80])),
}

interface Stream {
  readonly codec: Codec
  readonly pictures: readonly { readonly isKey: boolean; readonly sizes: readonly number[] }[]
  readonly packetSize: number
  readonly aggregates: boolean
}

const streams: fc.Arbitrary<Stream> = fc.record({
  codec: fc.constantFrom<Codec>('h264', 'h265'),
  pictures: fc.array(
    fc.record({
      isKey: fc.boolean(),
      sizes: fc.array(fc.integer({ min: 1, max: 3000 }), { minLength: 1, maxLength: 4 }),
    }),
    { minLength: 1, maxLength: 6 },
  ),
  packetSize: fc.integer({ min: 20, max: 1500 }),
  aggregates: fc.boolean(),
})

/** All that a camera sends, and the units in it. */
function transmissionOf({ codec, pictures, packetSize, aggregates }: Stream) {
  const units = pictures.map(({ isKey, sizes }) => [...(isKey ? SETS[codec] : []), ...pictureOf(codec, isKey, sizes)])
  const sdp = describeVideo({ codec, units: [joinNals(SETS[codec])] })
  const reply = (cseq: number, headers: string, body = '') =>
    Buffer.from(`RTSP/1.0 200 OK\r\nCSeq: ${cseq}\r\n${headers}\r\n${body}`)
  let sequence = 65_533
  const packets = units.flatMap((nals, i) => {
    const payloads = packetize(codec, nals, packetSize, aggregates)
    const timestamp = (2 ** 32 - 5000 + i * 3000) % 2 ** 32
    return payloads.map((payload, at) => {
      const packet = { sequence: sequence++ & 0xffff, timestamp, payload, isMarked: at === payloads.length - 1 }
      return interleaved(0, rtpPacket(packet))
    })
  })
  const bytes = Buffer.concat([
    reply(1, 'Public: OPTIONS\r\n'),
    reply(2, `Content-Length: ${sdp.length}\r\n`, sdp),
    reply(3, 'Session: 1\r\nTransport: RTP/AVP/TCP;interleaved=0-1\r\n'),
    reply(4, ''),
    interleaved(1, senderReport(1_700_000_000_000, 2 ** 32 - 5000)),
    ...packets,
  ])
  return { bytes, units: units.map(joinNals) }
}

/** Feeds pieces until the session ends. */
function view(pieces: Iterable<Uint8Array>, type: CameraAddress['type'] = 'rtsp') {
  const units: AccessUnit[] = []
  const hooks = { send() {}, onUnit: (unit: AccessUnit) => void units.push(unit) }
  const session: CameraSession = openSession(
    { type, url: new URL('rtsp://camera/live') },
    new Login('a', 'b'),
    hooks,
    ffmpeg,
  )
  try {
    for (const piece of pieces) session.feed(piece)
    session.tick(0)
  } catch (error) {
    if (!(error instanceof CameraError)) throw error
    return { units, error }
  }
  return { units, error: null }
}

function* piecesOf(bytes: Buffer, cuts: readonly number[]): Generator<Buffer> {
  for (let at = 0, i = 0; at < bytes.length; i++) {
    const length = cuts.length === 0 ? bytes.length : cuts[i % cuts.length]!
    yield bytes.subarray(at, at + length)
    at += length
  }
}

const cuts = fc.array(fc.integer({ min: 1, max: 400 }), { maxLength: 20 })

/** Changes bytes, leaves some out, and puts some in. */
const damages = fc.array(
  fc.record({
    at: fc.double({ min: 0, max: 1, noNaN: true }),
    remove: fc.nat(40),
    insert: fc.uint8Array({ maxLength: 40 }),
  }),
  { minLength: 1, maxLength: 8 },
)
type Damage = { readonly at: number; readonly remove: number; readonly insert: Uint8Array }

function damaged(bytes: Buffer, places: readonly Damage[]): Buffer {
  return places.reduce((all, { at, remove, insert }) => {
    const from = Math.floor(at * all.length)
    return Buffer.concat([all.subarray(0, from), insert, all.subarray(from + remove)])
  }, bytes)
}

function bodyOf(pictures: readonly Uint8Array[], hasLengths: boolean): Buffer {
  const parts = pictures.map((picture) => {
    const data = Buffer.concat([Buffer.from([0xff, 0xd8, 0xff]), picture, Buffer.from([0xff, 0xd9])])
    const head = `--frame\r\nContent-Type: image/jpeg\r\n${hasLengths ? `Content-Length: ${data.length}\r\n` : ''}\r\n`
    return Buffer.concat([Buffer.from(head), data, Buffer.from('\r\n')])
  })
  return Buffer.concat([...parts, Buffer.from('--frame\r\n')])
}

const chunked = (body: Buffer, size: number) =>
  Buffer.concat(
    [...piecesOf(body, [size])].flatMap((piece) => [
      Buffer.from(`${piece.length.toString(16)}\r\n`),
      piece,
      Buffer.from('\r\n'),
    ]),
  )

const multiparts = fc
  .record({
    // No boundary is among the bytes.
    pictures: fc.array(
      fc.array(fc.integer({ min: 128, max: 255 }), { maxLength: 300 }).map((all) => Uint8Array.from(all)),
      {
        minLength: 1,
        maxLength: 4,
      },
    ),
    hasLengths: fc.boolean(),
    chunk: fc.option(fc.integer({ min: 1, max: 200 })),
  })
  .map(({ pictures, hasLengths, chunk }) => {
    const body = bodyOf(pictures, hasLengths)
    const coding = chunk === null ? '' : 'Transfer-Encoding: chunked\r\n'
    const head = `HTTP/1.1 200 OK\r\nContent-Type: multipart/x-mixed-replace; boundary="frame"\r\n${coding}\r\n`
    const bytes = Buffer.concat([Buffer.from(head), chunk === null ? body : chunked(body, chunk)])
    return { bytes, count: pictures.length }
  })

describe('a stream', () => {
  it('gives the units that were put into packets, however it is cut', () => {
    fc.assert(
      fc.property(streams, cuts, (stream, cuts) => {
        const { bytes, units } = transmissionOf(stream)
        const seen = view(piecesOf(bytes, cuts))
        expect(seen.error).toBeNull()
        expect(seen.units.map(({ data }) => Buffer.from(data).equals(units.shift()!))).not.toContain(false)
        expect(units).toEqual([])
        expect(seen.units.map(({ isKey }) => isKey)).toEqual(stream.pictures.map(({ isKey }) => isKey))
        expect(seen.units.some(({ afterLoss }) => afterLoss)).toBe(false)
        expect(seen.units.at(-1)!.mediaTime).toBeCloseTo(((stream.pictures.length - 1) * 100) / 3)
        expect(seen.units[0]!.cameraTime!.getTime()).toBe(1_700_000_000_000)
      }),
    )
  })

  it('gives nothing damaged when packets are lost', () => {
    fc.assert(
      fc.property(streams, fc.array(fc.nat(200), { maxLength: 10 }), (stream, lost) => {
        const { bytes, units } = transmissionOf(stream)
        const start = bytes.indexOf(Buffer.from([0x24, 0, 0]))
        const packets: Buffer[] = []
        for (let at = start; at >= 0 && at < bytes.length; at += 4 + bytes.readUInt16BE(at + 2)) {
          packets.push(bytes.subarray(at, at + 4 + bytes.readUInt16BE(at + 2)))
        }
        const kept = packets.filter((_, i) => !lost.includes(i))
        const slices = (data: Uint8Array) =>
          splitNals(data)
            .filter((nal) => nal.length > 4 || nal[1]! < 0xc0)
            .join()
        const sent = new Set(units.map(slices))
        for (const { data } of view([bytes.subarray(0, start), ...kept]).units) {
          // The last slices may be lost without a trace of how many there were.
          expect([...sent].some((unit) => unit.startsWith(slices(data)))).toBe(true)
        }
      }),
    )
  })

  it('keeps the parameter sets of a picture apart from those of the next', () => {
    const { bytes } = transmissionOf({ codec: 'h264', pictures: [], packetSize: 1400, aggregates: false })
    const others = SETS.h264.map((set) => Buffer.concat([set, Buffer.from([7])]))
    const [picture, next] = [pictureOf('h264', true, [10]), pictureOf('h264', true, [20])]
    // Neither markers nor timestamps end the first one.
    const packets = packetize('h264', [...picture, ...others, ...next]).map((payload, sequence, { length }) =>
      interleaved(0, rtpPacket({ sequence, timestamp: 0, payload, isMarked: sequence === length - 1 })),
    )
    const units = view([bytes, ...packets]).units.map(({ data }) => Buffer.from(data).toString('hex'))
    const expected = [
      [...SETS.h264, ...picture],
      [...others, ...next],
    ]
    expect(units).toEqual(expected.map((nals) => joinNals(nals).toString('hex')))
  })

  it.each([
    ['h264', [10]],
    ['h264', [11]],
    ['h265', [36 << 1, 1]],
    ['h265', [37 << 1, 1]],
  ] as const)('of %s keeps a picture that the unit %j ends, in the last packet', (codec, mark) => {
    const { bytes } = transmissionOf({ codec, pictures: [], packetSize: 1400, aggregates: false })
    const pictures = [true, false].map((isKey) => [...(isKey ? SETS[codec] : []), ...pictureOf(codec, isKey, [10, 20])])
    const payloads = pictures.map((nals) => [...packetize(codec, nals), Buffer.from(mark)])
    let sequence = 0
    const packets = payloads.flatMap((all, timestamp) =>
      all.map((payload, i) =>
        interleaved(0, rtpPacket({ sequence: sequence++, timestamp, payload, isMarked: i === all.length - 1 })),
      ),
    )
    const { units } = view([bytes, ...packets])
    expect(units.map(({ data }) => Buffer.from(data))).toEqual(pictures.map(joinNals))
    expect(units.some(({ afterLoss }) => afterLoss)).toBe(false)
  })

  it('gives the pictures of a multipart response, however it is cut', () => {
    fc.assert(
      fc.property(multiparts, cuts, ({ bytes, count }, cuts) => {
        expect(view(piecesOf(bytes, cuts), 'mjpeg').units).toHaveLength(count)
      }),
    )
  })

  it('ends with a CameraError at worst when it is damaged', () => {
    fc.assert(
      fc.property(streams, damages, cuts, (stream, places, cuts) => {
        for (const { data } of view(piecesOf(damaged(transmissionOf(stream).bytes, places), cuts)).units) {
          expect(data.length).toBeLessThanOrEqual(MAX_UNIT * 1.1)
        }
      }),
    )
    fc.assert(
      fc.property(multiparts, damages, cuts, ({ bytes }, places, cuts) => {
        for (const type of ['mjpeg', 'jpeg'] as const) view(piecesOf(damaged(bytes, places), cuts), type)
      }),
    )
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 2000 }), { maxLength: 20 }), (pieces) => {
        for (const type of CAMERA_TYPES) view(pieces, type)
      }),
    )
  })
})

describe('what has no end is refused', () => {
  const OK = Buffer.from('RTSP/1.0 200 OK\r\n')
  const HTTP = Buffer.from('HTTP/1.1 200 OK\r\n')
  const CHUNKED = Buffer.from('Transfer-Encoding: chunked\r\n\r\n')
  const ONES = Buffer.alloc(10_000, 0xff)
  const rtsp = transmissionOf({ codec: 'h264', pictures: [], packetSize: 100, aggregates: false }).bytes
  const mjpeg = Buffer.from(
    'HTTP/1.1 200 OK\r\nContent-Type: multipart/x-mixed-replace; boundary=frame\r\n\r\n--frame\r\n\r\n',
  )
  const fragments = function* () {
    for (let sequence = 0; ; sequence++) {
      const payload = Buffer.concat([Buffer.from([28, sequence === 0 ? 0x85 : 5]), Buffer.alloc(60_000, 0x81)])
      yield interleaved(0, rtpPacket({ sequence: sequence & 0xffff, timestamp: 0, payload, isMarked: false }))
    }
  }
  const again = function* (piece: Uint8Array) {
    for (;;) yield piece
  }
  const followed = function* (first: Uint8Array, rest: Iterable<Uint8Array>) {
    yield first
    yield* rest
  }

  it.each<[string, CameraAddress['type'], string, () => Iterable<Uint8Array>]>([
    ['a header', 'rtsp', 'exceeds 16 KiB', () => followed(OK, again(Buffer.from('x')))],
    ['headers', 'rtsp', 'exceeds 16 KiB', () => followed(OK, again(Buffer.from('a:b\r\n')))],
    ['short headers', 'rtsp', 'more than 100', () => [Buffer.from(`RTSP/1.0 200 OK\r\n${'a:b\r\n'.repeat(101)}\r\n`)]],
    [
      'a description',
      'rtsp',
      'exceeds 64 KiB',
      () => [rtsp.subarray(0, 45), OK, Buffer.from('Content-Length: 65537\r\n\r\n')],
    ],
    ['garbage', 'rtsp', 'not speak RTSP', () => again(Buffer.alloc(1000, 0x24))],
    ['a picture', 'rtsp', 'exceeds 4 MiB', () => followed(rtsp, fragments())],
    ['a part', 'mjpeg', 'exceeds 4 MiB', () => followed(mjpeg, again(ONES))],
    [
      'a long part',
      'mjpeg',
      'exceeds 4096 KiB',
      () => [mjpeg, Buffer.from('\r\n--frame\r\nContent-Length: 4194305\r\n\r\n')],
    ],
    ['a snapshot', 'jpeg', 'exceeds 4 MiB', () => followed(HTTP, followed(Buffer.from('\r\n'), again(ONES)))],
    ['a chunk', 'jpeg', 'endless chunks', () => followed(HTTP, followed(CHUNKED, again(Buffer.from(' '))))],
  ])('%s', (_, type, message, pieces) => {
    const { error } = view(pieces(), type)
    expect(error).toMatchObject({ reason: 'protocol', message: expect.stringContaining(message) })
  })

  it('byte by byte, a picture costs no more than its length', () => {
    // With a cost that grows with the square, this would take minutes.
    const picture = Buffer.alloc(MAX_UNIT - 100, 0xff)
    const bytes = Buffer.concat([Buffer.from('\r\n'), bodyOf([picture], false)])
    function* singles() {
      yield mjpeg
      yield bytes.subarray(0, 3_700_000)
      for (let at = 3_700_000; at < bytes.length; at++) yield bytes.subarray(at, at + 1)
    }
    expect(view(singles(), 'mjpeg').units).toHaveLength(1)
  })
})
