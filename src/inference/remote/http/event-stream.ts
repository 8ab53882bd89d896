import { linesOf } from '../../../lib/text-lines.ts'

/**
 * Reads the `data:` lines of a stream of server-sent events, except empty ones, which are not events.
 * @param source UTF-8, in chunks with arbitrary boundaries.
 */
export async function* dataLines(source: AsyncIterable<Uint8Array>): AsyncGenerator<string, void, void> {
  for await (const line of linesOf(source)) {
    const data = line.startsWith('data:') ? line.slice('data:'.length).trim() : ''
    if (data !== '') yield data
  }
}
