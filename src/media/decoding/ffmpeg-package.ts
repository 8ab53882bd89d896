import { createRequire } from 'node:module'

const { resolve } = createRequire(import.meta.url)

/** The file with FFmpeg's libraries. Its package is optional: without it, a server decodes images only. */
export const FFMPEG_FILE = `@seydx/node-av-${process.platform}-${process.arch}/node-av.node`

export function isFFmpegInstalled(): boolean {
  try {
    resolve(FFMPEG_FILE)
    return true
  } catch {
    return false
  }
}

/** Whether this server can decode a modality: without FFmpeg, neither video nor audio. */
export function isDecodable(modality: string): boolean {
  return (modality !== 'video' && modality !== 'audio') || isFFmpegInstalled()
}
