/**
 * The data of each Server-Sent Event of a stream, as the WHATWG HTML standard reads them: lines end with LF, CR LF or CR,
 * several data lines of one event are joined by LF, and an event that the stream breaks off is not one.
 */
export async function* readEvents(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  let data: string[] = []
  for await (const line of linesOf(bytes)) {
    if (line.startsWith('data:')) data.push(line.slice(line[5] === ' ' ? 6 : 5))
    else if (line === '' && data.length > 0) {
      yield data.join('\n')
      data = []
    }
  }
}

/** Lines that have ended. */
async function* linesOf(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const piece of bytes) {
    // Behind a CR at the end of a piece, an LF that belongs to it may follow.
    const lines = (rest + decoder.decode(piece, { stream: true })).split(/\r\n|\n|\r(?!$)/)
    rest = lines.pop()!
    yield* lines
  }
  if (rest.endsWith('\r')) yield rest.slice(0, -1)
}
