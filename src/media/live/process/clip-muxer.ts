import { CODEC_H264, CODEC_H265, type FFmpeg, MEDIA_VIDEO, SEARCH_CHILDREN, setOptions } from '../../decoding/ffmpeg.ts'
import type { Size } from '../../pixels.ts'
import { isStart } from './camera-session.ts'
import { clipTimes, durationAt, TICKS } from './clip-times.ts'
import { kindOfH264 } from './protocols/h264.ts'
import { kindOfH265 } from './protocols/h265.ts'
import { START_CODE } from './protocols/unit-assembler.ts'
import type { RecordedUnit } from './unit-ring.ts'

const CODECS = { h264: CODEC_H264, h265: CODEC_H265 }
/** H.265 under the tag that Apple's players accept. */
const TAGS = { h264: 0, h265: Buffer.from('hvc1').readUInt32LE() }
const KINDS = { h264: kindOfH264, h265: kindOfH265 }
const BUFFER_BYTES = 256 * 1024
/** Length of a fragment, which is written before the next one is read. */
const FRAGMENT_MICROSECONDS = '1000000'

/**
 * Muxes units of H.264 or H.265, as a camera has sent them, into fragmented MP4.
 * @param units from a key frame on, all of one codec.
 * @param size of the pictures as they are encoded.
 * @returns the file, a second or so at a time.
 * @throws Error for parameter sets that FFmpeg refuses.
 */
export async function* muxClip(
  ffmpeg: FFmpeg,
  units: readonly RecordedUnit[],
  size: Size,
): AsyncGenerator<Uint8Array, void, void> {
  const { codec, data: first, pixelAspect } = units[0]!.unit
  if (codec === 'jpeg') throw new Error('MP4 has no pictures of JPEG that browsers show')
  let written: Buffer[] = []
  const io = new ffmpeg.IOContext()
  const write = (bytes: Uint8Array) => {
    written.push(Buffer.from(bytes))
    return bytes.length
  }
  io.allocContextWithCallbacks(BUFFER_BYTES, 1, null, write, null)
  const output = new ffmpeg.FormatContext()
  const packet = new ffmpeg.Packet()
  packet.alloc()
  try {
    check(output.allocOutputContext2(null, 'mp4', null))
    output.pb = io
    const stream = output.newStream(null)
    const sets = parameterSets(first, KINDS[codec])
    Object.assign(stream.codecpar, { ...size, codecType: MEDIA_VIDEO, codecId: CODECS[codec], extradata: sets })
    stream.codecpar.codecTag = TAGS[codec]
    stream.timeBase = { num: 1, den: TICKS }
    if (pixelAspect !== undefined) stream.sampleAspectRatio = stream.codecpar.sampleAspectRatio = pixelAspect
    const fragments = { movflags: 'frag_keyframe+empty_moov+default_base_moof', frag_duration: FRAGMENT_MICROSECONDS }
    setOptions(ffmpeg, output, fragments, SEARCH_CHILDREN)
    check(await output.writeHeader(null))
    const times = clipTimes(units)
    for (const [i, { unit }] of units.entries()) {
      packet.data = unit.data
      packet.dts = BigInt(times[i]!.decoded)
      packet.pts = BigInt(times[i]!.shown)
      packet.duration = BigInt(durationAt(times, i))
      packet.isKeyframe = isStart(unit)
      // Packets that cannot be written are left out, as by the decoder.
      await output.writeFrame(packet)
      packet.unref()
      if (written.length === 0) continue
      yield Buffer.concat(written)
      written = []
    }
    check(await output.writeTrailer())
    if (written.length > 0) yield Buffer.concat(written)
  } finally {
    packet.free()
    output.pb = null
    output.freeContext()
    io.freeContext()
  }
}

/** The parameter sets that a key unit begins with, in Annex B. */
function parameterSets(unit: Uint8Array, kindOf: typeof kindOfH264): Buffer {
  const bytes = Buffer.from(unit.buffer, unit.byteOffset, unit.byteLength)
  const sets: Buffer[] = []
  for (let at = 0; at >= 0; ) {
    const next = bytes.indexOf(START_CODE, at + START_CODE.length)
    const kind = kindOf(bytes.subarray(at + START_CODE.length, next === -1 ? bytes.length : next))
    if (kind?.isSlice) break
    if (kind !== null && kind.set !== null) sets.push(bytes.subarray(at, next === -1 ? bytes.length : next))
    at = next
  }
  return Buffer.concat(sets)
}

function check(code: number): void {
  if (code < 0) throw new Error(`FFmpeg could not write a clip: error ${code}`)
}
