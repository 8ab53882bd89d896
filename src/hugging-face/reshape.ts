import { countOf, NUMBER_BYTES } from '../models/read/gguf-tensors.ts'
import type { Weight } from './safetensors.ts'

/** Pads the rows of a matrix or a vector with zeros, and adds rows of zeros. */
export function padded(weight: Weight, shape: readonly number[]): Weight {
  const rowBytes = weight.shape.at(-1)! * NUMBER_BYTES[weight.type]
  const paddedRowBytes = shape.at(-1)! * NUMBER_BYTES[weight.type]
  const read = async () => {
    const values = await weight.read()
    // Zero is all bits zero in each type.
    const result = Buffer.alloc(countOf(shape) * NUMBER_BYTES[weight.type])
    for (let from = 0, to = 0; from < values.length; from += rowBytes, to += paddedRowBytes) {
      values.copy(result, to, from, from + rowBytes)
    }
    return result
  }
  return { ...weight, shape, read }
}

/**
 * Joins the kernels of two frames, each (outputs, channels, height, width), to one of a convolution over both:
 * (outputs, channels, 2, height, width).
 * @throws Error if they differ in type or shape.
 */
export function joinedFrames(name: string, first: Weight, second: Weight): Weight {
  const [outputs, channels, height, width] = first.shape as [number, number, number, number]
  if (first.shape.length !== 4 || first.shape.join() !== second.shape.join() || first.type !== second.type) {
    throw new Error(`the tensors '${first.name}' and '${second.name}' do not fit together`)
  }
  const planeBytes = height * width * NUMBER_BYTES[first.type]
  const read = async () => {
    const frames = [await first.read(), await second.read()]
    const planes: Buffer[] = []
    for (let from = 0; from < frames[0]!.length; from += planeBytes) {
      for (const frame of frames) planes.push(frame.subarray(from, from + planeBytes))
    }
    return Buffer.concat(planes)
  }
  return { name, type: first.type, shape: [outputs, channels, 2, height, width], read }
}
