/**
 * Reads the `data:` lines of a stream of server-sent events, without the empty ones, which are no events.
 * @param source UTF-8, in pieces that may end anywhere.
 */
export async function* dataLines(source: AsyncIterable<Uint8Array>): AsyncGenerator<string, void, void> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const piece of source) {
    const lines = (rest + decoder.decode(piece, { stream: true })).split('\n')
    rest = lines.pop()!
    yield* lines.map(dataOf).filter((data) => data !== '')
  }
  const last = dataOf(rest)
  if (last !== '') yield last
}

function dataOf(line: string): string {
  return line.startsWith('data:') ? line.slice('data:'.length).trim() : ''
}
