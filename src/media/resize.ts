import type { ImageLimits } from '../models/card.ts'
import type { ImageTarget } from './image-detail.ts'
import { type RgbImage, type Size, toMultiple } from './pixels.ts'
import { tiledSize } from './tiles.ts'

/**
 * The size to which an image is stretched for a model. Sides are multiples of `pixelsPerToken`, the area lies within
 * the model's token limits, and the aspect ratio is kept as closely as that allows. A model that takes only squares gets
 * its largest one; one whose images are cut, a grid of whole tiles.
 */
export function targetSize(original: Size, limits: ImageTarget): Size {
  const { square, longestEdge, enlarges, fills, tiles } = limits
  if (square) {
    const side = Math.sqrt(limits.maxTokens) * limits.pixelsPerToken
    return { width: side, height: side }
  }
  if (tiles) return tiledSize(original, { ...limits, tiles }) ?? anyAspect(original, inOnePiece(limits, tiles))
  if (fills) return filledSize(original, limits)
  if (longestEdge && enlarges) return withLongerSide(original, longestEdge, limits)
  if (longestEdge) return anyAspect(withLongestEdge(original, longestEdge), { ...limits, roundUp: true })
  return anyAspect(original, limits)
}

/** Whether an image has a size that `targetSize` may give to an image. */
export function isPrepared(size: Size, limits: ImageLimits): boolean {
  const { tiles, enlarges } = limits
  if (tiles?.grid === 'slices') return size.width * size.height <= (tiles.most + 1) * tiles.side ** 2
  if (tiles || enlarges) {
    const target = targetSize(size, limits)
    if (target.width === size.width && target.height === size.height) return true
    if (tiles?.grid !== 'large') return false
  }
  const side = limits.pixelsPerToken
  const tokens = imageTokens(size, limits)
  const most = tiles ? inOnePiece(limits, tiles).maxTokens : limits.maxTokens
  return size.width % side === 0 && size.height % side === 0 && tokens >= limits.minTokens && tokens <= most
}

function anyAspect(original: Size, limits: ImageTarget): Size {
  const size = smartResize(original, limits)
  const tokens = imageTokens(size, limits)
  return tokens >= limits.minTokens && tokens <= limits.maxTokens ? size : nearestAspect(original, limits)
}

function inOnePiece(limits: ImageTarget, { tokens }: NonNullable<ImageLimits['tiles']>): ImageTarget {
  return { ...limits, maxTokens: Math.min(limits.maxTokens, tokens) }
}

/**
 * A size that the processors of such models do not change. They enlarge every image until its aspect ratio has no room for
 * another row or column, and round down.
 */
function filledSize(original: Size, { pixelsPerToken: unit, maxTokens }: ImageLimits): Size {
  let { width, height } = original
  for (;;) {
    const scale = Math.sqrt(maxTokens / (width * height))
    const columns = Math.min(maxTokens, Math.max(1, Math.floor(width * scale)))
    const rows = Math.min(maxTokens, Math.max(1, Math.floor(height * scale)))
    if (columns === width && rows === height) return { width: columns * unit, height: rows * unit }
    width = columns
    height = rows
  }
}

/** The library scales every image to the edge, small ones too: only the aspect ratio decides. */
function withLongerSide({ width, height }: Size, edge: number, { pixelsPerToken: unit }: ImageLimits): Size {
  const longer = Math.max(width, height)
  const scaled = (side: number) => toMultiple((side * edge) / longer, unit, Math.ceil)
  return { width: scaled(width), height: scaled(height) }
}

function withLongestEdge({ width, height }: Size, edge: number): Size {
  const longer = Math.max(width, height)
  return longer <= edge ? { width, height } : { width: (width * edge) / longer, height: (height * edge) / longer }
}

/** The rule of the reference processors for models that take any aspect ratio. For narrow images its rounding can miss both limits. */
function smartResize({ width, height }: Size, limits: ImageTarget): Size {
  const { pixelsPerToken: unit, minTokens, maxTokens, roundUp } = limits
  const round = roundUp ? Math.ceil : Math.round
  const rounded = { width: toMultiple(width, unit, round), height: toMultiple(height, unit, round) }
  const tokens = (rounded.width * rounded.height) / unit ** 2
  // The same order of operations as the reference: another order rounds differently for squares.
  if (tokens > maxTokens) {
    const beta = Math.sqrt((width * height) / (maxTokens * unit ** 2))
    return { width: toMultiple(width / beta, unit, Math.floor), height: toMultiple(height / beta, unit, Math.floor) }
  }
  if (tokens < minTokens) {
    const beta = Math.sqrt((minTokens * unit ** 2) / (width * height))
    return { width: toMultiple(width * beta, unit, Math.ceil), height: toMultiple(height * beta, unit, Math.ceil) }
  }
  return rounded
}

/** The size within the limits whose aspect ratio is nearest; of equally near ones, the largest. */
function nearestAspect({ width, height }: Size, { pixelsPerToken: unit, minTokens, maxTokens }: ImageLimits): Size {
  let best = { columns: 1, rows: maxTokens }
  let least = Number.POSITIVE_INFINITY
  for (let columns = 1; columns <= maxTokens; columns++) {
    const ideal = Math.round((columns * height) / width)
    const rows = Math.min(Math.max(ideal, Math.ceil(minTokens / columns)), Math.floor(maxTokens / columns))
    const distance = Math.abs(Math.log((columns * height) / (rows * width)))
    if (rows < Math.ceil(minTokens / columns) || distance > least) continue
    best = { columns, rows }
    least = distance
  }
  return { width: best.columns * unit, height: best.rows * unit }
}

/** The number of tokens of an image with this prepared size, if it is not cut. */
export function imageTokens(prepared: Size, limits: ImageLimits): number {
  return (prepared.width / limits.pixelsPerToken) * (prepared.height / limits.pixelsPerToken)
}

/**
 * Stretches an image to `size`. The result equals that of Pillow's `Image.resize(size, BICUBIC)` on 8-bit RGB, bit for
 * bit: separable, antialiased when shrinking, a = -0.5, 22-bit fixed point, horizontal pass first. Training uses
 * Pillow, and so do the reference processors of open models.
 */
export function resizeBicubic(source: RgbImage, size: Size): RgbImage {
  let { width, height, data } = source
  if (width !== size.width) {
    const resample = size.width > width ? enlargeRows : resampleRows
    data = resample(data, width, height, coefficients(width, size.width))
    width = size.width
  }
  if (height !== size.height) {
    const resample = size.height > height ? enlargeColumns : resampleColumns
    data = resample(data, width, coefficients(height, size.height))
    height = size.height
  }
  return { width, height, data }
}

/** Filter taps for each output position: `weights[out * taps + i]` applies to input `starts[out] + i`. */
interface Coefficients {
  readonly outputs: number
  readonly taps: number
  readonly starts: Int32Array
  readonly counts: Int32Array
  readonly weights: Int32Array
}

const PRECISION_BITS = 22
const ONE = 1 << PRECISION_BITS
const HALF = 1 << (PRECISION_BITS - 1)
const SUPPORT = 2

function cubic(distance: number): number {
  const a = -0.5
  const x = Math.abs(distance)
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a
  return 0
}

function coefficients(inputs: number, outputs: number): Coefficients {
  const scale = inputs / outputs
  const filterScale = Math.max(scale, 1)
  const support = SUPPORT * filterScale
  // The taps of one output, followed by at least one zero.
  const taps = Math.ceil(support) * 2 + 2
  const starts = new Int32Array(outputs)
  const counts = new Int32Array(outputs)
  const weights = new Int32Array(outputs * taps)
  const row = new Float64Array(taps)
  for (let out = 0; out < outputs; out++) {
    const centre = (out + 0.5) * scale
    const start = Math.max(0, Math.trunc(centre - support + 0.5))
    const end = Math.min(inputs, Math.trunc(centre + support + 0.5))
    let sum = 0
    for (let i = start; i < end; i++) {
      const weight = cubic((i - centre + 0.5) / filterScale)
      row[i - start] = weight
      sum += weight
    }
    for (let i = 0; i < end - start; i++) {
      const weight = (row[i]! / sum) * ONE
      weights[out * taps + i] = Math.trunc(weight < 0 ? weight - 0.5 : weight + 0.5)
    }
    starts[out] = start
    counts[out] = end - start
  }
  return { outputs, taps, starts, counts, weights }
}

function clip(fixed: number): number {
  const value = fixed >> PRECISION_BITS
  return value < 0 ? 0 : value > 255 ? 255 : value
}

// Sums wrap at 32 bits, as Pillow's do. Math.imul and `| 0` keep V8 on integers, which is three times as fast.

function resampleRows(data: Uint8Array, width: number, height: number, c: Coefficients): Uint8Array {
  const { outputs, taps, starts, counts, weights } = c
  const out = new Uint8Array(outputs * height * 3)
  for (let y = 0, to = 0; y < height; y++) {
    const row = y * width
    for (let x = 0; x < outputs; x++, to += 3) {
      let red = HALF
      let green = HALF
      let blue = HALF
      let from = (row + starts[x]!) * 3
      const first = x * taps
      const end = first + counts[x]!
      for (let i = first; i < end; i++, from += 3) {
        const weight = weights[i]!
        red = (red + Math.imul(data[from]!, weight)) | 0
        green = (green + Math.imul(data[from + 1]!, weight)) | 0
        blue = (blue + Math.imul(data[from + 2]!, weight)) | 0
      }
      out[to] = clip(red)
      out[to + 1] = clip(green)
      out[to + 2] = clip(blue)
    }
  }
  return out
}

function resampleColumns(data: Uint8Array, width: number, c: Coefficients): Uint8Array {
  const stride = width * 3
  const out = new Uint8Array(c.outputs * stride)
  const sums = new Int32Array(stride)
  for (let y = 0; y < c.outputs; y++) {
    sums.fill(HALF)
    // Two taps at a time, since memory costs more than arithmetic. The weight after the last tap of a row is zero.
    for (let i = 0; i < c.counts[y]!; i += 2) {
      const weight = c.weights[y * c.taps + i]!
      const next = c.weights[y * c.taps + i + 1]!
      const from = (c.starts[y]! + i) * stride
      const below = next === 0 ? from : from + stride
      for (let x = 0; x < stride; x++) {
        sums[x] = (sums[x]! + Math.imul(data[from + x]!, weight) + Math.imul(data[below + x]!, next)) | 0
      }
    }
    const to = y * stride
    for (let x = 0; x < stride; x++) out[to + x] = clip(sums[x]!)
  }
  return out
}

// Where an image is enlarged, an output has no more than four taps. All of them together take two thirds of the time: memory costs
// more than arithmetic. Models that ask for a thousand tokens have most pictures enlarged to a megapixel.

function enlargeRows(data: Uint8Array, width: number, height: number, c: Coefficients): Uint8Array {
  const out = new Uint8Array(c.outputs * height * 3)
  const [stride, outStride] = [width * 3, c.outputs * 3]
  // Column by column, so that places and weights stay the same.
  for (let x = 0; x < c.outputs; x++) {
    const [p0, p1, p2, p3, w0, w1, w2, w3] = fourTaps(c, x, 3)
    for (let row = 0, to = x * 3; to < out.length; row += stride, to += outStride) {
      for (let channel = 0; channel < 3; channel++) {
        const from = row + channel
        const sum =
          (HALF +
            Math.imul(data[from + p0]!, w0) +
            Math.imul(data[from + p1]!, w1) +
            Math.imul(data[from + p2]!, w2) +
            Math.imul(data[from + p3]!, w3)) |
          0
        out[to + channel] = clip(sum)
      }
    }
  }
  return out
}

function enlargeColumns(data: Uint8Array, width: number, c: Coefficients): Uint8Array {
  const stride = width * 3
  const out = new Uint8Array(c.outputs * stride)
  for (let y = 0; y < c.outputs; y++) {
    const [p0, p1, p2, p3, w0, w1, w2, w3] = fourTaps(c, y, stride)
    const to = y * stride
    for (let x = 0; x < stride; x++) {
      const sum =
        (HALF +
          Math.imul(data[p0 + x]!, w0) +
          Math.imul(data[p1 + x]!, w1) +
          Math.imul(data[p2 + x]!, w2) +
          Math.imul(data[p3 + x]!, w3)) |
        0
      out[to + x] = clip(sum)
    }
  }
  return out
}

type FourTaps = readonly [number, number, number, number, number, number, number, number]

/** Places of an output's inputs, which lie `step` apart, and their weights. Where there are fewer than four, the others weigh nothing. */
function fourTaps({ taps, starts, counts, weights }: Coefficients, output: number, step: number): FourTaps {
  const [start, last, first] = [starts[output]!, counts[output]! - 1, output * taps]
  const place = (tap: number) => (start + Math.min(tap, last)) * step
  const weight = (tap: number) => weights[first + tap]!
  return [place(0), place(1), place(2), place(3), weight(0), weight(1), weight(2), weight(3)]
}
