import type { TrackedClip } from './tracked-clip.ts'

/**
 * Tracks in the format of MOTChallenge's results (arxiv.org/abs/2003.09003, table 2): for each box `frame, id, left,
 * top, width, height, confidence, x, y, z`. Frames count from 1; -1 means unknown. The format has no labels.
 */
export function toMot({ boxes }: TrackedClip): string {
  const lines = [...boxes]
    .sort((one, other) => one.frame - other.frame || one.track - other.track)
    .map(({ frame, track, left, top, right, bottom }) =>
      [frame + 1, track, left, top, right - left, bottom - top, -1, -1, -1, -1].join(','),
    )
  return lines.map((line) => `${line}\n`).join('')
}
