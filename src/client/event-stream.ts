import { linesOf } from '../lib/text-lines.ts'

/**
 * The data of each Server-Sent Event of a stream, as the WHATWG HTML standard parses them: lines end with LF, CR LF or
 * CR, several data lines of one event are joined by LF, and an incomplete event at the end of the stream is dropped.
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
