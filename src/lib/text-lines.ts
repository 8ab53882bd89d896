/**
 * The lines of a text, which end with LF, CR LF or CR, as event streams may have them. The last one may lack its end.
 * @param bytes UTF-8, in pieces that may end anywhere.
 */
export async function* linesOf(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<string, void, void> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const piece of bytes) {
    // Behind a CR at the end of a piece, an LF that belongs to it may follow.
    const lines = (rest + decoder.decode(piece, { stream: true })).split(/\r\n|\n|\r(?!$)/)
    rest = lines.pop()!
    yield* lines
  }
  if (rest !== '') yield rest.replace(/\r$/, '')
}
