import { memorySource } from '../../src/media/decoding/byte-source.ts'
import { Container } from '../../src/media/decoding/container.ts'
import { CODEC_H264, CODEC_H265, loadFFmpeg, MEDIA_VIDEO } from '../../src/media/decoding/ffmpeg.ts'

export interface ReadClip {
  readonly codec: 'h264' | 'h265' | number
  readonly width: number
  readonly height: number
  /** Width of a pixel by its height, as the container says it. */
  readonly pixelAspect: { readonly num: number; readonly den: number }
  /** When each packet is shown, in seconds, in the order of decoding, and whether it is a key frame. */
  readonly packets: readonly { readonly time: number; readonly isKey: boolean }[]
  readonly seconds: number
  /** How many pictures FFmpeg decodes. */
  readonly pictures: number
}

/** Reads a video in MP4 as FFmpeg does. */
export async function readClip(bytes: Uint8Array): Promise<ReadClip> {
  const ffmpeg = loadFFmpeg()
  await using container = await Container.open(ffmpeg, memorySource(bytes), 'video/mp4')
  const [stream] = container.streamsOf(MEDIA_VIDEO)
  const { codecId, width, height } = stream!.codecpar
  const decoder = container.decoder(stream!, 1)
  const frame = new ffmpeg.Frame()
  frame.alloc()
  const { num, den } = stream!.timeBase
  const packets: ReadClip['packets'][number][] = []
  let pictures = 0
  let end = 0
  const receive = () => {
    for (; decoder.receiveFrameSync(frame) >= 0; frame.unref()) pictures++
  }
  for await (const packet of container.packets(stream!)) {
    packets.push({ time: (Number(packet.pts) * num) / den, isKey: packet.isKeyframe })
    end = Math.max(end, (Number(packet.pts + packet.duration) * num) / den)
    decoder.sendPacketSync(packet)
    receive()
  }
  decoder.sendPacketSync(null)
  receive()
  frame.free()
  decoder.freeContext()
  const codec = codecId === CODEC_H264 ? 'h264' : codecId === CODEC_H265 ? 'h265' : codecId
  return { codec, width, height, pixelAspect: stream!.sampleAspectRatio, packets, seconds: end, pictures }
}
