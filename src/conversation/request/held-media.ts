import { InlineMedia } from '../../media/index.ts'
import type { MediaUrl, Message } from './message.ts'

/**
 * Owns what the media of one request keeps in memory: what came within its body, and whatever is added, such as what was
 * fetched. It is disposed of as soon as nobody will look at the originals again.
 */
export function holdMedia(addresses: Iterable<MediaUrl>): DisposableStack {
  const held = new DisposableStack()
  for (const address of addresses) if (address instanceof InlineMedia) held.defer(() => address.release())
  return held
}

/** The addresses of all media that messages name by address. */
export function* addressesOf(messages: readonly Pick<Message, 'content'>[]): Generator<MediaUrl, void, void> {
  for (const { content } of messages) {
    if (typeof content !== 'object' || content === null) continue
    for (const part of content) {
      if (part.type === 'image_url') yield part.image_url.url
      else if (part.type === 'video_url') yield part.video_url.url
      else if (part.type === 'audio_url') yield part.audio_url.url
      else if (part.type === 'input_audio') yield part.input_audio.data
      else if (part.type === 'video_frames') for (const frame of part.video_frames.frames) yield frame.image_url.url
    }
  }
}
