/** The colours that the numbers of a picture stand for, as codes of ITU-T H.273. */
export interface ColourCodes {
  readonly primaries: number
  readonly transfer: number
}

/** Replaces red, green and blue by sRGB, from 0 to 255. Further channels remain. */
export type ToSrgb = (pixels: Uint8Array, channels: number) => void

type Matrix = readonly [Row, Row, Row]
type Row = readonly [number, number, number]

const PQ = 16
const HLG = 18
const SAME: Matrix = [
  [1, 0, 0],
  [0, 1, 0],
  [0, 0, 1],
]
const P3: Matrix = [
  [1.2249401, -0.2249402, 0],
  [-0.0420569, 1.0420571, 0],
  [-0.0196376, -0.0786361, 1.0982735],
]
/** From other primaries to those of sRGB, in linear light. */
const TO_SRGB: Readonly<Record<number, Matrix>> = {
  // BT.2020.
  9: [
    [1.660491, -0.5876411, -0.0728499],
    [-0.1245505, 1.1328999, -0.0083494],
    [-0.0181508, -0.1005789, 1.1187297],
  ],
  // P3 with the white of cinemas, and that of displays.
  11: P3,
  12: P3,
}

/** White in a picture of high dynamic range, in cd/m² (ITU-R BT.2408). Only highlights are brighter. */
const WHITE = 203
/** The peak that HLG is made for, in cd/m². */
const HLG_PEAK = 1000
/** From here on, brightness is compressed, so that highlights differ from white. */
const KNEE = 0.6
const STEPS = 8192
/** sRGB values by linear light. */
const ENCODED = Uint8Array.from({ length: STEPS + 1 }, (_, step) => {
  const light = step / STEPS
  return Math.round(255 * (light <= 0.0031308 ? 12.92 * light : 1.055 * light ** (1 / 2.4) - 0.055))
})

/** @returns null for sRGB, and for colours that players treat as sRGB. */
export function toSrgb({ primaries, transfer }: ColourCodes): ToSrgb | null {
  const isHigh = transfer === PQ || transfer === HLG
  const matrix = TO_SRGB[primaries] ?? (isHigh ? SAME : null)
  if (matrix === null) return null
  const lightOf = transfer === PQ ? pqLight : transfer === HLG ? hlgLight : srgbLight
  const lights = Float64Array.from({ length: 256 }, (_, value) => lightOf(value / 255))
  const [red, green, blue] = matrix
  return (pixels, channels) => {
    for (let at = 0; at + 2 < pixels.length; at += channels) {
      const [r, g, b] = [lights[pixels[at]!]!, lights[pixels[at + 1]!]!, lights[pixels[at + 2]!]!]
      const gain = transfer === HLG ? hlgGain(r, g, b) : 1
      const most = Math.max(r, g, b) * gain
      const scale = isHigh && most > KNEE ? (compressed(most) / most) * gain : gain
      pixels[at] = encoded(scale * (red[0] * r + red[1] * g + red[2] * b))
      pixels[at + 1] = encoded(scale * (green[0] * r + green[1] * g + green[2] * b))
      pixels[at + 2] = encoded(scale * (blue[0] * r + blue[1] * g + blue[2] * b))
    }
  }
}

function encoded(light: number): number {
  return ENCODED[Math.round(Math.min(Math.max(light, 0), 1) * STEPS)]!
}

function compressed(light: number): number {
  const room = 1 - KNEE
  const beyond = light - KNEE
  return KNEE + (room * beyond) / (room + beyond)
}

function srgbLight(value: number): number {
  return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4
}

/** SMPTE ST 2084, as a share of white. */
function pqLight(value: number): number {
  const root = value ** (32 / 2523)
  return (
    ((10_000 / WHITE) * Math.max(0, root - 3424 / 4096) ** (8192 / 1305)) /
    (2413 / 128 - (2392 / 128) * root) ** (8192 / 1305)
  )
}

/** ITU-R BT.2100: the light of the scene, from 0 to 1. */
function hlgLight(value: number): number {
  return value <= 0.5 ? value ** 2 / 3 : (Math.exp((value - 0.55991073) / 0.17883277) + 0.28466892) / 12
}

/** From the light of the scene to that of a display, as a share of white. */
function hlgGain(r: number, g: number, b: number): number {
  return (HLG_PEAK / WHITE) * (0.2627 * r + 0.678 * g + 0.0593 * b) ** 0.2
}
