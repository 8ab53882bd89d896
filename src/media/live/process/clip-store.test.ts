import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import { type CameraVideo, encodeCameraVideo, plainImage } from '../../../../test/support/camera-video.ts'
import { readClip } from '../../../../test/support/read-clip.ts'
import { loadFFmpeg } from '../../decoding/ffmpeg.ts'
import type { ClipAbout } from '../protocol.ts'
import type { AccessUnit } from './camera-session.ts'
import { ClipStore } from './clip-store.ts'
import { UnitRing } from './unit-ring.ts'

const ffmpeg = loadFFmpeg()
const size = { width: 64, height: 48 }
const span = { agoMs: 60_000, momentAgoMs: 0, forMs: 60_000 }
let video: CameraVideo
beforeAll(() => {
  video = encodeCameraVideo({
    codec: 'h264',
    frames: Array.from({ length: 10 }, () => plainImage(64, 48, [9, 90, 200])),
  })
})

function ringOf(units: readonly Uint8Array[]): UnitRing {
  const ring = new UnitRing()
  ring.keepMs = 60_000
  const now = performance.now()
  const about = { codec: 'h264', cameraTime: null, afterLoss: false } as const
  for (const [i, data] of units.entries()) {
    const unit: AccessUnit = { ...about, data, isKey: i % 5 === 0, mediaTime: i * 100 }
    ring.add(unit, now - (units.length - i) * 100)
  }
  return ring
}

async function recorded(store: ClipStore, number: number, ring: UnitRing) {
  const ended = store.record(number, { ring, size }, span)
  store.finish(number)
  return ended
}

/** The file of a clip; null where it cannot be written. */
async function fileOf(store: ClipStore, number: number): Promise<Buffer | null> {
  const pieces: Uint8Array[] = []
  for (;;) {
    const piece = await store.piece(number).catch(() => null)
    if (piece === null) return null
    if (piece.length === 0) return Buffer.concat(pieces)
    pieces.push(piece)
  }
}

describe('clips of a process', () => {
  test('are files of no more bytes than they say', async () => {
    const store = new ClipStore(ffmpeg)
    const about = (await recorded(store, 1, ringOf(video.units))) as ClipAbout
    const file = (await fileOf(store, 1))!
    expect(file.length).toBeLessThanOrEqual(about.bytes)
    const read = await readClip(file)
    expect(read).toMatchObject({ codec: 'h264', ...size, pictures: 10, seconds: 1 })
    expect(read.packets.map(({ isKey }) => isKey).slice(0, 6)).toEqual([true, false, false, false, false, true])
    store.drop(1)
    expect(await store.piece(1)).toBeNull()
  })

  test('hold bounded memory, which those that are dropped give back', async () => {
    const store = new ClipStore(ffmpeg)
    const ring = ringOf(Array.from({ length: 30 }, () => new Uint8Array(2 ** 20)))
    const ended = []
    for (const number of [1, 2, 3]) ended.push(await recorded(store, number, ring))
    expect(ended).toEqual([expect.any(Object), expect.any(Object), 'busy'])
    store.drop(1)
    expect(await recorded(store, 4, ring)).toEqual(expect.any(Object))
    const open = store.record(5, { ring, size }, span)
    store.drop(5)
    expect(await open).toBe('stopped')
  })

  test('of what is no video, or damaged, are files or none', async () => {
    const damage = fc.record({ unit: fc.nat(9), at: fc.nat(200), bytes: fc.uint8Array({ maxLength: 20 }) })
    const rubbish = fc.array(fc.uint8Array({ maxLength: 200 }), { minLength: 1, maxLength: 10 })
    const damaged = fc.array(damage, { minLength: 1, maxLength: 10 }).map((places) => {
      const units = video.units.map((unit) => Buffer.from(unit))
      for (const { unit, at, bytes } of places)
        units[unit]!.set(bytes.subarray(0, Math.max(0, units[unit]!.length - at)), Math.min(at, units[unit]!.length))
      return units
    })
    await fc.assert(
      fc.asyncProperty(fc.oneof(rubbish, damaged), async (units) => {
        const store = new ClipStore(ffmpeg)
        const about = await recorded(store, 1, ringOf(units))
        expect(about).toEqual(expect.objectContaining({ bytes: expect.any(Number) }))
        const file = await fileOf(store, 1)
        if (file !== null) expect(file.subarray(4, 8).toString()).toBe('ftyp')
        store.drop(1)
      }),
      { numRuns: 300 },
    )
  })
})
