/*
 * What the server takes, as docs/limits.md has it. A user who brings more is told at once, and not after a minute of
 * uploading.
 */

const MIB = 2 ** 20
const MOST_FILE_BYTES = 128 * MIB
const MOST_PIXELS = 100e6
/** 8192 audio tokens, 12.5 a second. */
const LONGEST_SOUND_S = 655
/** Images, videos and sounds of one request. */
export const MOST_MEDIA = 256

interface Measured {
  readonly kind: 'image' | 'video' | 'audio'
  readonly name: string
  readonly blob: { readonly size: number }
  readonly width: number
  readonly height: number
  readonly duration: number
}

/** What is wrong with media for the server, as a sentence; null when nothing is. */
export function problemOf({ kind, name, blob, width, height, duration }: Measured): string | null {
  if (blob.size > MOST_FILE_BYTES) {
    return `${name} has ${Math.ceil(blob.size / MIB)} MiB; the server takes files of up to ${MOST_FILE_BYTES / MIB} MiB.`
  }
  if (width * height > MOST_PIXELS) {
    const megapixels = Math.ceil((width * height) / 1e6)
    return `${name} has ${megapixels} megapixels; the server takes images of up to ${MOST_PIXELS / 1e6}.`
  }
  if (kind === 'audio' && duration > LONGEST_SOUND_S) {
    return `${name} is ${minutes(duration)} minutes long; the server takes up to ${minutes(LONGEST_SOUND_S)}.`
  }
  return null
}

function minutes(seconds: number): string {
  return (seconds / 60).toFixed(1)
}
