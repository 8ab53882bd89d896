/**
 * The lines of a text, which end with LF, CR LF or CR, as in event streams. The last one may be without an end.
 * @param bytes UTF-8, in chunks with arbitrary boundaries.
 */
export async function* linesOf(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<string, void, void> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const piece of bytes) {
    // A CR at the end of a chunk may be followed by an LF that belongs to it.
    const lines = (rest + decoder.decode(piece, { stream: true })).split(/\r\n|\n|\r(?!$)/)
    rest = lines.pop()!
    yield* lines
  }
  if (rest !== '') yield rest.replace(/\r$/, '')
}
