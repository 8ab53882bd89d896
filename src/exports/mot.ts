import type { TrackedClip } from './tracked-clip.ts'

/**
 * Tracks as MOTChallenge's results have them (arxiv.org/abs/2003.09003, table 2): for each box `frame, id, left, top, width,
 * height, confidence, x, y, z`. Frames count from 1; -1 stands for what is not known. Labels have no place in it.
 */
export function toMot({ boxes }: TrackedClip): string {
  const lines = [...boxes]
    .sort((one, other) => one.frame - other.frame || one.track - other.track)
    .map(({ frame, track, left, top, right, bottom }) =>
      [frame + 1, track, left, top, right - left, bottom - top, -1, -1, -1, -1].join(','),
    )
  return lines.map((line) => `${line}\n`).join('')
}
