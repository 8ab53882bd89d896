import type { MediaKind } from '../media/attachment.ts'

const KINDS: Readonly<Record<MediaKind, readonly string[]>> = {
  image: ['png', 'jpg', 'jpeg', 'webp', 'gif', 'bmp', 'avif'],
  video: ['mp4', 'webm', 'mov', 'm4v', 'mkv'],
  audio: ['wav', 'mp3', 'flac', 'ogg', 'oga', 'opus', 'weba', 'aac', 'm4a', 'm4b'],
}

/** What a file is by its name, the only thing that a list tells; null for others. */
export function kindOfName(name: string): MediaKind | null {
  const ending = /[.]([a-z0-9]+)$/i.exec(name)?.[1]?.toLowerCase() ?? ''
  return (Object.keys(KINDS) as MediaKind[]).find((kind) => KINDS[kind].includes(ending)) ?? null
}
