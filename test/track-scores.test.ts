import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { countTracks, idf1, mota, type ScoredBox } from './support/track-scores.ts'

type Row = readonly [id: number, left: number, top: number, right: number, bottom: number]
interface Clip {
  readonly frames: readonly (readonly [known: readonly Row[], found: readonly Row[]])[]
  readonly scores: Readonly<Record<'switches' | 'missed' | 'extra' | 'idf1' | 'mota', number>>
}

test('the measures of tracks are those of py-motmetrics', async () => {
  const clips = JSON.parse(await readFile('test/fixtures/track-scores.json', 'utf8')) as Clip[]
  const boxes = (rows: readonly Row[]) =>
    rows.map(([id, left, top, right, bottom]): ScoredBox => ({ id, left, top, right, bottom }))
  for (const { frames, scores } of clips) {
    const counts = countTracks(frames.map(([known, found]) => ({ known: boxes(known), found: boxes(found) })))
    const { switches, missed, extra } = counts
    expect({ switches, missed, extra }).toEqual({
      switches: scores.switches,
      missed: scores.missed,
      extra: scores.extra,
    })
    expect(idf1(counts)).toBeCloseTo(scores.idf1, 5)
    expect(mota(counts)).toBeCloseTo(scores.mota, 5)
  }
  expect(clips.some(({ scores }) => scores.switches > 2)).toBe(true)
})
