import type { FFmpeg } from '../../decoding/ffmpeg.ts'
import type { Size } from '../../pixels.ts'
import type { ClipAbout, ClipFault, ClipSpan } from '../protocol.ts'
import { muxClip } from './clip-muxer.ts'
import { type RecordedUnit, sizeOf, type UnitRing } from './unit-ring.ts'

/** Maximum size of the units of all clips that wait to be read. */
const MOST_BYTES = 64 * 2 ** 20

/** The camera that a clip is recorded from. */
export interface ClipSource {
  readonly ring: UnitRing
  /** Size of its pictures as encoded; null for codecs that clips cannot hold. */
  readonly size: Size | null
}

interface Clip {
  /** Ends the recording. */
  readonly finish: () => void
  /** Bytes that it holds. */
  bytes: number
  /** The file; null while the clip is recorded. */
  pieces: AsyncGenerator<Uint8Array, void, void> | null
}

/** Clips of all cameras, by the numbers that the parent assigns. They outlive their camera, until they are dropped. */
export class ClipStore {
  readonly #ffmpeg: FFmpeg
  readonly #clips = new Map<number, Clip>()

  constructor(ffmpeg: FFmpeg) {
    this.#ffmpeg = ffmpeg
  }

  /** Records a clip. Resolves when the clip has ended, early if its camera ends. */
  record(number: number, { ring, size }: ClipSource, { agoMs, momentAgoMs, forMs }: ClipSpan) {
    const { promise, resolve } = Promise.withResolvers<ClipAbout | ClipFault>()
    if (size === null) return Promise.resolve<ClipFault>('codec')
    const now = performance.now()
    const recording = {
      from: now - agoMs,
      moment: now - momentAgoMs,
      onEnd: (units: readonly RecordedUnit[]) => {
        clearTimeout(timer)
        resolve(this.#hold(number, units, size))
      },
    }
    const timer = setTimeout(() => ring.end(recording), forMs)
    this.#clips.set(number, { finish: () => ring.end(recording), bytes: 0, pieces: null })
    if (ring.begin(recording)) return promise
    clearTimeout(timer)
    this.drop(number)
    return Promise.resolve<ClipFault>('busy')
  }

  /** Ends the recording of a clip now. */
  finish(number: number): void {
    this.#clips.get(number)?.finish()
  }

  #hold(number: number, units: readonly RecordedUnit[], size: Size): ClipAbout | ClipFault {
    const clip = this.#clips.get(number)
    if (clip === undefined) return 'stopped'
    const bytes = units.reduce((sum, { unit }) => sum + sizeOf(unit), 0)
    const held = [...this.#clips.values()].reduce((sum, { bytes }) => sum + bytes, 0)
    if (units.length === 0 || held + bytes > MOST_BYTES) {
      this.#clips.delete(number)
      return units.length === 0 ? 'no_key_frame' : 'busy'
    }
    clip.bytes = bytes
    clip.pieces = muxClip(this.#ffmpeg, units, size)
    const now = performance.now()
    return { bytes, fromAgoMs: now - units[0]!.at, toAgoMs: now - units.at(-1)!.at }
  }

  /** The next piece of a clip's file: empty at its end, null for a clip that cannot be written or does not exist. */
  async piece(number: number): Promise<Uint8Array | null> {
    const next = await this.#clips.get(number)?.pieces?.next()
    return next === undefined ? null : (next.value ?? new Uint8Array())
  }

  drop(number: number): void {
    const clip = this.#clips.get(number)
    this.#clips.delete(number)
    clip?.finish()
    void clip?.pieces?.return()
  }
}
