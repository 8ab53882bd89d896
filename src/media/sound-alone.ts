/** Marks in the index of a file: the kind of a track in MP4 and QuickTime, a codec in WebM. */
const PICTURES = /hdlr.{8}vide|V_(?:VP|AV1|MPEG)/s
const SOUND = /hdlr.{8}soun|A_(?:OPUS|VORBIS)/s
const PIECE_BYTES = 14 * 2 ** 20
/** Longer than any of the marks. */
const OVERLAP = 16

/**
 * Whether a video container has only sound, as voice recordings do. Pictures count in any codec: if one program cannot
 * play it, another may.
 */
export async function hasSoundAlone(file: Blob): Promise<boolean> {
  let hasSound = false
  for (let from = 0; from < file.size; from += PIECE_BYTES) {
    const bytes = await file.slice(from, from + PIECE_BYTES + OVERLAP).arrayBuffer()
    const text = new TextDecoder('latin1').decode(bytes)
    if (PICTURES.test(text)) return false
    hasSound ||= SOUND.test(text)
  }
  return hasSound
}
