import { memorySource } from '../../../decoding/byte-source.ts'
import { Container } from '../../../decoding/container.ts'
import {
  CODEC_H264,
  CODEC_H265,
  type FFmpeg,
  MEDIA_VIDEO,
  NO_TIMESTAMP,
  type Rational,
} from '../../../decoding/ffmpeg.ts'
import { InvalidMedia } from '../../../decoding/invalid-media.ts'
import { type AccessUnit, CameraError, dateOf } from '../camera-session.ts'
import { kindOfH264 } from './h264.ts'
import { kindOfH265 } from './h265.ts'
import { UnitAssembler } from './unit-assembler.ts'

const START = Buffer.from([0, 0, 1])
const NONE = new Uint8Array()
/** With wider or higher pixels, a picture would be a line, or too large. */
const MOST_ASPECT = 16
/** How each codec is described in MP4: where the size of lengths is, and where the parameter sets are. */
const CODECS = {
  h264: { kindOf: kindOfH264, sizeAt: 4, setsAt: 5 },
  h265: { kindOf: kindOfH265, sizeAt: 21, setsAt: 22 },
}

/**
 * Demuxes the video of a segment: MPEG-TS, or a fragment of MP4.
 * @param header the beginning of the MP4 file; null for MPEG-TS.
 * @param time when the segment begins, in Unix milliseconds.
 * @returns units whose `mediaTime` is that of the segment; none for damaged ones.
 * @throws CameraError for one without video that can be decoded.
 */
export async function readSegment(
  ffmpeg: FFmpeg,
  { header, segment, time }: { readonly header: Buffer | null; readonly segment: Buffer; readonly time: number | null },
): Promise<AccessUnit[]> {
  const units: AccessUnit[] = []
  const source = memorySource(header === null ? segment : Buffer.concat([header, segment]))
  try {
    await using container = await Container.open(ffmpeg, source, header === null ? 'video/mp2t' : 'video/mp4', false)
    const [stream] = container.streamsOf(MEDIA_VIDEO)
    if (stream === undefined) throw new CameraError('no_video', 'The camera sends segments without video')
    container.select(stream)
    const { codecId, extradata } = stream.codecpar
    const pixelAspect = isUsual(stream.sampleAspectRatio) ? stream.sampleAspectRatio : undefined
    const name = codecId === CODEC_H264 ? 'h264' : codecId === CODEC_H265 ? 'h265' : null
    if (name === null) throw new CameraError('unsupported_codec', 'The camera sends neither H.264 nor H.265')
    const { kindOf, sizeAt, setsAt } = CODECS[name]
    const isMp4 = extradata?.[0] === 1 && extradata.length > setsAt
    const sets = isMp4 ? setsIn(extradata.subarray(setsAt), name) : []
    const assembler = new UnitAssembler(name, kindOf, sets, (unit) => units.push({ ...unit, pixelAspect }))
    const { num, den } = stream.timeBase
    let first: number | null = null
    let timestamp = 0
    for await (const { data, pts, dts } of container.packets(stream)) {
      const told = pts === NO_TIMESTAMP ? dts : pts
      if (told !== NO_TIMESTAMP) timestamp = Number(told)
      const mediaTime = (timestamp * num * 1000) / den
      first ??= mediaTime
      const cameraTime = time === null ? null : dateOf(time + mediaTime - first)
      const packet = { payload: NONE, isLast: true, timestamp, mediaTime, cameraTime, afterGap: false }
      const bytes = Buffer.from(data ?? NONE)
      assembler.open(packet)
      for (const nal of isMp4 ? measured(bytes, (extradata[sizeAt]! & 3) + 1) : marked(bytes)) assembler.add(nal)
      assembler.close(packet)
    }
  } catch (error) {
    if (!(error instanceof InvalidMedia)) throw error
  }
  return units
}

function isUsual({ num, den }: Rational): boolean {
  return num > 0 && num <= den * MOST_ASPECT && den <= num * MOST_ASPECT
}

/** NAL units after their lengths, of `size` bytes. */
function* measured(bytes: Buffer, size: number): Generator<Buffer> {
  for (let at = 0; at + size < bytes.length; ) {
    const end = at + size + bytes.readUIntBE(at, size)
    if (end > bytes.length) return
    if (end > at + size) yield bytes.subarray(at + size, end)
    at = end
  }
}

/** NAL units after start codes. */
function* marked(bytes: Buffer): Generator<Buffer> {
  for (let at = bytes.indexOf(START); at >= 0; ) {
    const next = bytes.indexOf(START, at + START.length)
    let end = next < 0 ? bytes.length : next
    while (bytes[end - 1] === 0) end--
    if (end > at + START.length) yield bytes.subarray(at + START.length, end)
    at = next
  }
}

/** Parameter sets of MP4's boxes `avcC` and `hvcC`, from where the number of lists or sets is. */
function setsIn(bytes: Buffer, codec: 'h264' | 'h265'): Buffer[] {
  const sets: Buffer[] = []
  let at = 0
  const take = (size: 1 | 2) => {
    at += size
    return at <= bytes.length ? bytes.readUIntBE(at - size, size) : 0
  }
  const lists = codec === 'h265' ? take(1) : 2
  for (let list = 0; list < lists && at < bytes.length; list++) {
    if (codec === 'h265') at++
    for (let left = codec === 'h265' ? take(2) : take(1) & 31; left > 0 && at < bytes.length; left--) {
      const length = take(2)
      sets.push(bytes.subarray(at, at + length))
      at += length
    }
  }
  return sets
}
