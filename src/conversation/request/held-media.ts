import { InlineMedia } from '../../media/inline-media.ts'
import type { MediaUrl, Message } from './message.ts'

/**
 * Owns the original media of one request: inline media from its body, and media added later, such as fetched media.
 * Dispose of it as soon as the originals are no longer needed.
 */
export function holdMedia(urls: Iterable<MediaUrl>): DisposableStack {
  const held = new DisposableStack()
  for (const url of urls) if (url instanceof InlineMedia) held.defer(() => url.release())
  return held
}

/** The URLs of all media in the messages that have one. */
export function* urlsOf(messages: readonly Pick<Message, 'content'>[]): Generator<MediaUrl, void, void> {
  for (const { content } of messages) {
    if (typeof content !== 'object' || content === null) continue
    for (const part of content) {
      if (part.type === 'image_url') yield part.image_url.url
      else if (part.type === 'video_url') yield part.video_url.url
      else if (part.type === 'audio_url') yield part.audio_url.url
      else if (part.type === 'input_audio') yield part.input_audio.data
      else if (part.type === 'file') yield part.file.file_data ?? part.file.file_url ?? ''
      else if (part.type === 'video_frames') for (const frame of part.video_frames.frames) yield frame.image_url.url
    }
  }
}
