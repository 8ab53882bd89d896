/**
 * Whether a client asks for Server-Sent Events in its `Accept` header. It must name them: a client that accepts any type,
 * or JSON with the same quality, gets JSON.
 */
export function prefersEvents(accept: string | undefined): boolean {
  const qualities = new Map((accept ?? '').split(',').map(readRange))
  const events = qualities.get('text/event-stream') ?? 0
  return events > 0 && events > (qualities.get('application/json') ?? 0)
}

/** A media range such as `text/*;q=0.5`, with its quality. */
function readRange(range: string): [name: string, quality: number] {
  const [name = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase())
  const quality = parameters.find((parameter) => parameter.startsWith('q='))
  return [name, quality === undefined ? 1 : Number(quality.slice(2)) || 0]
}
