import type { Exchange } from '../server/exchanges.ts'
import { CopyButton } from '../widgets/copy-button.tsx'
import { millisecondsText } from '../widgets/quantities.ts'

/** Events of a long stream on the screen: the first and the last ones. The copy has all of them. */
const MOST_EVENTS = 400

/** What came back: JSON, or the events of a stream. */
export function ResponseView({ exchange }: { readonly exchange: Exchange }) {
  const { response, isStream } = exchange
  return (
    <>
      <div class="drawer-tools">
        <span class="drawer-facts">{factsOf(exchange)}</span>
        {response !== null && <CopyButton text={() => textOf(exchange, Number.POSITIVE_INFINITY)} />}
      </div>
      {response !== null && (
        <pre tabIndex={0} role="region" aria-label={isStream ? 'The events of the response' : 'The response'}>
          {textOf(exchange, MOST_EVENTS)}
        </pre>
      )}
    </>
  )
}

/** In a word or two. */
export function outcomeOf({ status, milliseconds }: Exchange): string {
  if (milliseconds === null) return 'in progress'
  return status === 0 || status === null ? 'no response' : `${status}`
}

function factsOf(exchange: Exchange): string {
  const { status, milliseconds, response, isStream } = exchange
  if (milliseconds === null) return 'The response is in progress.'
  if (status === 0 || status === null) return 'No response arrived.'
  const facts = [`Status ${status}`, millisecondsText(milliseconds)]
  if (isStream) facts.push(`${(response as unknown[]).length} events`)
  return facts.join(' · ')
}

function textOf({ response, isStream }: Exchange, mostEvents: number): string {
  if (!isStream) return JSON.stringify(response, null, 2)
  const lines = (response as unknown[]).map((event) => `data: ${JSON.stringify(event)}`)
  if (lines.length <= mostEvents) return lines.join('\n\n')
  const half = mostEvents / 2
  const left = `… ${lines.length - mostEvents} more events …`
  return [...lines.slice(0, half), left, ...lines.slice(-half)].join('\n\n')
}
